"""The engines, one package or module each. Code outside an engine never asks which engine it has."""
