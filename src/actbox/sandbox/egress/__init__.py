"""The one way out of a sandbox: a proxy on the host that a policy's domains and secrets govern."""
