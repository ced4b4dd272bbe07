import io
import logging

import matplotlib
import numpy
import pandas

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # on a busy machine it warns that fonts take long to find
matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

frame = pandas.DataFrame({"group": list("aabb"), "value": numpy.arange(4.0)})
assert frame.groupby("group").value.sum().to_dict() == {"a": 1.0, "b": 5.0}
random = numpy.random.default_rng(0).normal(size=(300, 300))
assert numpy.allclose(random @ numpy.linalg.inv(random), numpy.eye(300))
frame.to_csv("frame.csv")
assert len(pandas.read_csv("frame.csv")) == 4
mapped = numpy.memmap("mapped", dtype="f8", mode="w+", shape=(10,))
mapped[:] = 1
mapped.flush()

frame.plot(y="value")
picture = io.BytesIO()
plt.savefig(picture)
assert picture.getvalue().startswith(b"\x89PNG")
