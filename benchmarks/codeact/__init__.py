"""One task by ordinary tool calling and by CodeAct: what each costs in turns, tokens, context and time.

    python -m benchmarks.codeact                             scripted: no model is asked
    python -m benchmarks.codeact --model openai:MODEL        a real one (OPENAI_API_KEY, OPENAI_BASE_URL)

Both sides are real agents of Microsoft Agent Framework with the same instructions, question, tools and form of the
answer. What differs is how the tools are offered: as themselves (`traditional.py`), or to programs (`codeact.py`).
"""
