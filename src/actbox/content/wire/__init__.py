"""The providers' own formats, one module each: into content and back. Nothing here needs a provider's package."""
