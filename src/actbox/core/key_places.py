"""Tables of private places on a host: kernel files, service sockets, keys and passwords. Each entry has a reason and
its paths; everything below such a path is private as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SYSTEM: Final[Mapping[str, tuple[str, ...]]] = {
    "shows the host's processes": ("/proc",),
    "shows the host's kernel and devices": ("/sys",),
    "has the host's devices": ("/dev",),
    "has the sockets of the host's services": ("/run", "/var/run"),
    "has the host's passwords": (
        *("/etc/shadow", "/etc/gshadow", "/etc/tcb", "/etc/security/opasswd"),
        # Backups of `passwd` and `shadow`: programs that change the two write the old content here, and some systems
        # copy them every night.
        *("/etc/shadow-", "/etc/gshadow-", "/var/backups"),
        *("/etc/samba/smbpasswd", "/var/lib/samba/private", "/var/lib/sss", "/var/lib/cloud"),
    ),
    "says who may become root": ("/etc/sudoers", "/etc/sudoers.d", "/etc/doas.conf"),
    "has the host's keys": (
        *("/etc/ssh", "/etc/dropbear", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/letsencrypt"),
        *("/etc/krb5.keytab", "/etc/krb5kdc", "/var/lib/krb5kdc", "/var/kerberos"),
        *("/etc/credstore", "/etc/credstore.encrypted", "/var/lib/systemd/credential.secret"),
        *("/etc/cryptsetup-keys.d", "/etc/luks-keys", "/var/lib/sbctl", "/var/lib/shim-signed", "/etc/keys"),
        *("/etc/bind/rndc.key", "/etc/rndc.key", "/etc/libvirt/secrets"),
    ),
    "has the passwords and keys of the host's networks": (
        *("/etc/NetworkManager/system-connections", "/var/lib/NetworkManager", "/etc/netplan", "/var/lib/iwd"),
        *("/etc/wpa_supplicant", "/etc/ppp/chap-secrets", "/etc/ppp/pap-secrets"),
        *("/etc/wireguard", "/etc/openvpn", "/etc/ipsec.secrets", "/etc/ipsec.d/private", "/etc/swanctl"),
        *("/var/lib/tailscale", "/var/lib/zerotier-one", "/etc/cloudflared"),
    ),
    "has the passwords by which the host's services reach others": (
        *("/etc/mysql/debian.cnf", "/etc/exim4/passwd.client", "/etc/postfix/sasl_passwd"),
        *("/etc/postfix/sasl_passwd.db", "/etc/msmtprc", "/etc/ssmtp", "/etc/davfs2/secrets", "/etc/ceph"),
        "/etc/vault.d",
    ),
    "belongs to a container engine": (
        *("/var/lib/docker", "/etc/docker", "/var/lib/containerd", "/etc/containerd", "/var/lib/containers"),
        *("/var/lib/buildkit", "/var/lib/nerdctl", "/var/lib/lxc", "/var/lib/lxd", "/var/lib/incus"),
        *("/var/snap/docker", "/var/snap/lxd"),
    ),
    "has the keys of a cluster": (
        *("/var/lib/kubelet", "/etc/kubernetes", "/var/lib/etcd", "/etc/etcd", "/etc/rancher", "/var/lib/rancher"),
        *("/var/lib/k0s", "/etc/k0s", "/var/snap/microk8s", "/var/lib/minikube"),
    ),
}

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "for other machines, and by agents and desktops": (
        *(".ssh", ".gnupg", ".gnupg2", ".password-store", ".local/share/keyrings", ".local/share/kwalletd"),
        *(".gnome2/keyrings", ".kde/share/apps/kwallet", ".pki", ".age", ".Xauthority", ".ICEauthority", ".keychain"),
        *(".env", ".envrc", ".config/op", ".config/keybase", ".config/sops", ".config/age", ".vault-token", ".netrc"),
        *("_netrc", ".config/1Password", ".config/Bitwarden", ".config/Bitwarden CLI", ".local/share/gopass"),
        *(".config/gopass", ".config/rbw", ".curlrc", ".wgetrc", ".lftp", ".config/filezilla", ".config/remmina"),
        *(".local/share/remmina", ".vnc", ".smbcredentials", ".davfs2/secrets", ".google_authenticator", ".yubico"),
    ),
    "for clouds": (
        *(".aws", ".azure", ".boto", ".s3cfg", ".oci", ".oss", ".aliyun", ".bluemix", ".config/gcloud"),
        *(".config/doctl", ".config/hcloud", ".config/scw", ".config/linode-cli", ".config/rclone", ".mc", ".fly"),
        *(".config/heroku", ".config/netlify", ".local/share/com.vercel.cli", ".config/.wrangler", ".wrangler"),
        *(".cloudflared", ".ngrok2", ".config/ngrok", ".terraform.d", ".terraformrc", ".pulumi", ".config/configstore"),
        *(".railway", ".vagrant.d", ".chef", ".config/stripe", ".doppler"),
    ),
    "for clusters and by container engines": (
        *(".kube", ".minikube", ".k3d", ".talos", ".config/argocd", ".docker", ".dockercfg", ".config/containers"),
        *(".local/share/containers", ".local/share/docker", ".config/helm", ".colima", ".lima", ".rd"),
    ),
    "for code hosts": (
        *(".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub"),
        *(".config/tea", ".subversion/auth", ".cvspass"),
    ),
    "for registries of packages": (
        *(".pypirc", ".pip", ".config/pip", ".config/uv", ".local/share/uv/credentials", ".config/pypoetry/auth.toml"),
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".bunfig.toml", ".config/pnpm", ".condarc", ".continuum"),
        *(".gem/credentials", ".local/share/gem/credentials", ".bundle/config", ".cargo/credentials"),
        *(".cargo/credentials.toml", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties"),
        *(".ivy2/.credentials", ".sbt/.credentials", ".composer/auth.json", ".config/composer/auth.json"),
        *(".nuget/NuGet/NuGet.Config", ".config/NuGet"),
    ),
    "for models and data": (
        *(".huggingface", ".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".kaggle", ".config/kaggle"),
        *(".config/wandb", ".jupyter", ".local/share/jupyter/runtime"),
    ),
    "by agents that write code": (
        *(".claude", ".claude.json", ".codex", ".gemini", ".copilot", ".config/github-copilot", ".cursor"),
        *(".local/share/opencode", ".config/goose", ".aider.conf.yml", ".continue", ".config/io.datasette.llm"),
    ),
    "for databases": (
        *(".databrickscfg", ".databricks.cfg", ".databricks", ".snowsql", ".snowflake", ".config/snowflake"),
        *(".pgpass", ".pg_service.conf", ".my.cnf", ".mylogin.cnf", ".dbt", ".odbc.ini"),
    ),
    "for mail and messages": (
        *(".msmtprc", ".config/msmtp", ".mbsyncrc", ".fetchmailrc", ".offlineimaprc", ".mutt", ".config/mutt"),
        *(".config/neomutt", ".config/aerc", ".thunderbird", ".config/evolution", ".local/share/evolution"),
        *(".config/Signal", ".config/Slack", ".config/discord", ".local/share/TelegramDesktop", ".config/Element"),
        *("snap/thunderbird", "snap/slack", "snap/discord", ".purple"),
    ),
    "by browsers and other programs in a box of their own": (
        *(".mozilla", ".config/mozilla", ".librewolf", ".config/BraveSoftware", ".config/chromium"),
        *(".config/google-chrome", ".config/google-chrome-beta", ".config/google-chrome-unstable"),
        *(".config/microsoft-edge", ".config/opera", ".config/vivaldi", ".config/qutebrowser"),
        *(
            ".local/share/qutebrowser",
            ".local/share/epiphany",
            "snap/chromium",
            "snap/firefox",
            "snap/brave",
            ".var/app",
        ),
    ),
    "for money": (".bitcoin", ".ethereum", ".electrum", ".monero", ".config/solana", ".config/Exodus"),
}
"""Paths below a home directory that hold keys and passwords, grouped by the program or purpose that they serve."""

HISTORIES: Final = (
    *(".bash_history", ".zsh_history", ".zsh_sessions", ".zhistory", ".histfile", ".history", ".sh_history"),
    *(".ksh_history", ".ash_history", ".local/share/fish", ".local/share/atuin", ".config/nushell/history.txt"),
    *(".config/nushell/history.sqlite3", ".local/share/powershell"),
    *(".python_history", ".ipython", ".node_repl_history", ".irb_history", ".pry_history", ".php_history"),
    *(".Rhistory", ".julia/logs", ".psql_history", ".mysql_history", ".mariadb_history", ".sqlite_history"),
    *(".duckdb_history", ".rediscli_history", ".dbshell", ".mongodb"),
    *(".lesshst", ".viminfo", ".local/state/nvim", ".local/share/nvim/shada"),
)
"""History files below a home directory: people type passwords into prompts."""

VARIABLES: Final = (
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_CONFIG_DIR"),
    *("BOTO_CONFIG", "CLOUDSDK_CONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "OCI_CLI_CONFIG_FILE", "RCLONE_CONFIG"),
    *("TF_CLI_CONFIG_FILE", "KUBECONFIG", "CONTAINER_HOST", "DOCKER_CERT_PATH", "DOCKER_CONFIG", "DOCKER_HOST"),
    *("REGISTRY_AUTH_FILE", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "ICEAUTHORITY"),
    *("GNUPGHOME", "PASSWORD_STORE_DIR", "SSH_AUTH_SOCK", "SOPS_AGE_KEY_FILE", "KRB5CCNAME", "KRB5_KTNAME", "NETRC"),
    *("GH_CONFIG_DIR", "NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE", "PGPASSFILE", "HF_TOKEN_PATH"),
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "HISTFILE", "PYTHON_HISTORY", "PSQL_HISTORY", "MYSQL_HISTFILE"),
)
"""Environment variables that name further places of this user's keys, sockets or histories; some are lists."""
