"""Where one attempt runs: a coroutine, a thread, a child process."""

from warrener_agent.executors.port import HandlerResult, Execution, Executor, HandlerRaised, HandlerReturned

__all__ = ["HandlerResult", "Execution", "Executor", "HandlerRaised", "HandlerReturned"]
