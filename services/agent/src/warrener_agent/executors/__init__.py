"""Where one attempt runs: a coroutine, a thread, a child process."""

from warrener_agent.executors.port import Ended, Execution, Executor, Raised, Returned

__all__ = ["Ended", "Execution", "Executor", "Raised", "Returned"]
