"""An evaluation of coding agents: what they solve, in how many attempts, for how many tokens, and how they fail.

    python -m benchmarks.codegen                             scripted: no model is asked
    python -m benchmarks.codegen --model openai:MODEL        a real one, by the name that `CodeAgent` takes
    python -m benchmarks.codegen --humaneval HumanEval.jsonl.gz --model …

The exercises (`exercises/`) are the project's own: data, text, algorithms, files and tools. Each has a goal in words,
inputs that a seed makes, the right answer, a check that the model never sees, a reference solution, and a program that
looks right and is wrong. A scripted model gives the wrong program first and then the right one, which measures the
machinery. `public_sets.py` and `m3tooleval.py` read sets that others have published, from the files of whoever has
them.
"""
