"""The vault: who may send what where, behind a passphrase and this machine's secret."""

from affidavit.broker.vault.credentials import (
    CAUTIONS,
    Added,
    Caution,
    Credential,
    CredentialId,
    Credentials,
)
from affidavit.broker.vault.device import GIVES_UP
from affidavit.broker.vault.errors import (
    Conflict,
    DeviceSecretUnavailable,
    DeviceTrouble,
    Invalid,
    NotKnown,
    VaultAbsent,
    VaultDamaged,
    VaultError,
    VaultExists,
    VaultLocked,
    VaultUnavailable,
    WrongPassphrase,
)
from affidavit.broker.vault.head import DeviceMode
from affidavit.broker.vault.host_edit import HostEdit
from affidavit.broker.vault.host_entry import Hop, HostEntry, HostKeyPolicy, NewHost, hops_of
from affidavit.broker.vault.host_import import Imported
from affidavit.broker.vault.hosts import Hosts
from affidavit.broker.vault.keyring_store import KeyringStore
from affidavit.broker.vault.keys import DeviceKeys, KdfParams
from affidavit.broker.vault.kinds import CredentialKind, NewCredential
from affidavit.broker.vault.operator import Adopted, Adoption, OperatorData
from affidavit.broker.vault.proxy import Proxy, ProxyChoice, ProxySetting, route_for
from affidavit.broker.vault.trust import Anchor, TrustAnchors, trust_for
from affidavit.broker.vault.vault import Vault, VaultState

__all__ = [
    "CAUTIONS",
    "GIVES_UP",
    "Added",
    "Adopted",
    "Adoption",
    "Anchor",
    "Caution",
    "Conflict",
    "Credential",
    "CredentialId",
    "CredentialKind",
    "Credentials",
    "DeviceKeys",
    "DeviceMode",
    "DeviceSecretUnavailable",
    "DeviceTrouble",
    "Hop",
    "HostEdit",
    "HostEntry",
    "HostKeyPolicy",
    "Hosts",
    "Imported",
    "Invalid",
    "KdfParams",
    "KeyringStore",
    "NewCredential",
    "NewHost",
    "NotKnown",
    "OperatorData",
    "Proxy",
    "ProxyChoice",
    "ProxySetting",
    "TrustAnchors",
    "Vault",
    "VaultAbsent",
    "VaultDamaged",
    "VaultError",
    "VaultExists",
    "VaultLocked",
    "VaultState",
    "VaultUnavailable",
    "WrongPassphrase",
    "hops_of",
    "route_for",
    "trust_for",
]
