"""The engines, one package or module each. Nothing outside an engine asks which one it is."""
