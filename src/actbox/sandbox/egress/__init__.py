"""The network exit of a sandbox: a proxy on the host that enforces a policy's domains and secrets."""
