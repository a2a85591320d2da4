"""Keys of `settings.json` that nothing reads: most of them are slips.

They are no error, since Roo Code has settings that mean nothing here, and files are shared; of
those nothing is said.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from joey.config.documents import read_document
from joey.config.profiles import PROFILE_KEYS, PROFILES
from joey.config.settings import SETTINGS
from joey.core.near_names import nearest
from joey.core.settings import Settings
from joey.errors import ConfigError

log = logging.getLogger(__name__)

_KNOWN = frozenset({*Settings.__struct_encode_fields__, "$schema"})
_OF_ROO = frozenset(
    """
    autoCondenseContext autoCondenseContextPercent cachedChromeHostUrl codebaseIndexConfig
    codebaseIndexModels condensingApiConfigId currentApiConfigName customCondensingPrompt
    customModes customSupportPrompts diagnosticsEnabled diffEnabled dismissedUpsells
    enableMcpServerCreation enhancementApiConfigId enterBehavior execaShellPath experiments
    fuzzyMatchThreshold hasOpenedModeSelector historyPreviewCollapsed imageGenerationProvider
    includeTaskHistoryInEnhance lastShownAnnouncementId listApiConfigMeta maxOpenTabsContext
    openRouterImageApiKey openRouterImageGenerationSelectedModel pinnedApiConfigs
    profileThresholds rateLimitSeconds reasoningBlockCollapsed remoteBrowserEnabled
    remoteBrowserHost screenshotQuality showRooIgnoredFiles showWorktreesInHomeScreen
    soundEnabled soundVolume taskHistory telemetrySetting terminalCommandDelay
    terminalCompressProgressBar terminalOutputCharacterLimit terminalOutputLineLimit
    terminalPowershellCounter terminalShellIntegrationDisabled terminalShellIntegrationTimeout
    terminalZdotdir terminalZshClearEolMark terminalZshOhMy terminalZshP10k ttsEnabled ttsSpeed
    worktreeAutoOpenPath writeDelayMs
    """.split()  # noqa: SIM905 (easier to read and to extend than a literal)
)


def unknown_settings(home: Path) -> tuple[str, ...]:
    """A sentence about each key that is not known, with the one that was probably meant."""
    path = home / SETTINGS
    try:
        document = read_document(path) or {}
    except ConfigError:
        return ()  # whoever needs the settings tells it
    unknown = (key for key in document if key not in _KNOWN and key not in _OF_ROO)
    return tuple(f"{path}: `{key}` {_remark(key)}" for key in unknown)


def check_spelling(values: Iterable[str]) -> None:
    """For settings that a program sends. It may be one for Roo Code, and for a later version than
    is known here: only what is nearly the name of a setting is refused.

    Raises:
        ConfigError
    """
    for key in values:
        if key in _KNOWN or key in _OF_ROO or key in PROFILE_KEYS:
            continue
        if nearest(key, _KNOWN) is not None:
            raise ConfigError(f"`{key}` {_remark(key)}")
        log.info("the setting %r was sent, which nothing reads", key)


def _remark(key: str) -> str:
    if key in PROFILE_KEYS:
        return f"is not used: it belongs into a profile of {PROFILES}."
    near = nearest(key, _KNOWN)
    meant = f" Did you mean `{near}`?" if near else ""
    return f"is not used: there is no such setting.{meant}"
