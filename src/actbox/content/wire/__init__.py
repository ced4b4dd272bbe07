"""Readers and writers of the providers' own formats, one module each. None of them needs a provider's package."""
