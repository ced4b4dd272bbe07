"""A file goes in, a table and a chart come out."""

import tempfile

import actbox

CSV = "month,rain\nJan,52\nFeb,41\nMar,38\nApr,45\n"
CODE = """
import matplotlib.pyplot as plt
import pandas as pd

frame = pd.read_csv("input/rain.csv")
frame["share"] = (frame["rain"] / frame["rain"].sum()).round(3)
frame.to_csv("output/shares.csv", index=False)
plt.bar(frame["month"], frame["rain"])
plt.title("Rain by month")
plt.show()
frame
"""

result = actbox.run(CODE, files={"rain.csv": CSV})
print(result.value_text)
print("HTML form:", len(result.value_forms["text/html"]), "characters")
folder = tempfile.mkdtemp()
for artifact in result.artifacts:
    print(artifact.media_type, artifact.size, "bytes ->", artifact.save(folder).name)
