"""The commands of the server: one handler each, in modules by subject."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from joey.core.task_types import Response
from joey.server.commands import (
    messages,
    permissions,
    recordings,
    revisions,
    settings,
    task_queries,
    tasks,
)
from joey.server.commands.call import AnyCall

if TYPE_CHECKING:
    from joey.server.hub import ServerHub

CommandHandler = Callable[["ServerHub", AnyCall], Awaitable[Struct | None]]
"""The data of the response; None means `Done`."""

HANDLERS: dict[str, CommandHandler] = {
    "startNewTask": tasks.start_new_task,
    "resumeTask": tasks.resume_task,
    "cancelTask": tasks.cancel_task,
    "cancelCurrentTask": tasks.cancel_current_task,
    "clearCurrentTask": tasks.clear_current_task,
    "getCurrentTaskStack": tasks.get_current_task_stack,
    "deleteTask": tasks.delete_task,
    "isReady": tasks.is_ready,
    "ping": tasks.ping,
    "getProcesses": tasks.get_processes,
    "killProcess": tasks.kill_process,
    "sendMessage": messages.send_message,
    "pressPrimaryButton": partial(messages.answer_pending_ask, Response.YES),
    "pressSecondaryButton": partial(messages.answer_pending_ask, Response.NO),
    "respond": messages.respond,
    "getPermissions": permissions.get_permissions,
    "revokePermission": permissions.revoke_permission,
    "setApprovalLevel": permissions.set_approval_level,
    "editQueue": messages.edit_queue,
    "condenseTask": messages.condense_task,
    "switchMode": messages.switch_mode,
    "isTaskInHistory": task_queries.is_task_in_history,
    "getMessages": task_queries.get_messages,
    "getTokenUsage": task_queries.get_token_usage,
    "getTodos": task_queries.get_todos,
    "getEvents": task_queries.get_events,
    "subscribe": task_queries.subscribe,
    "getTask": task_queries.get_task,
    "listTasks": task_queries.list_tasks,
    "searchTasks": task_queries.search_tasks,
    "rewindTask": revisions.rewind_task,
    "undoRewind": revisions.undo_rewind,
    "editMessage": revisions.edit_message,
    "forkTask": revisions.fork_task,
    "getCheckpoints": revisions.get_checkpoints,
    "diffCheckpoint": revisions.diff_checkpoint,
    "restoreCheckpoint": revisions.restore_files,
    "getRecordings": recordings.get_recordings,
    "getRecording": recordings.get_recording,
    "compareRecordedRequests": recordings.compare_recorded_requests,
    "getConfiguration": settings.get_configuration,
    "setConfiguration": settings.set_configuration,
    "getProfiles": settings.get_profiles,
    "getActiveProfile": settings.get_active_profile,
    "setActiveProfile": settings.set_active_profile,
    "getProfileEntry": settings.get_profile_entry,
    "createProfile": partial(settings.save_profile, False),
    "updateProfile": partial(settings.save_profile, True),
    "upsertProfile": partial(settings.save_profile, None),
    "deleteProfile": settings.delete_profile,
    "getModes": settings.get_modes,
    "getModels": settings.get_models,
    "getCommands": settings.get_commands,
}
