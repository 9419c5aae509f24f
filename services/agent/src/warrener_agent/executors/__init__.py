"""Where one attempt runs: a coroutine, a thread, a child process."""

from warrener_agent.executors.port import Execution, Executor, HandlerRaised, HandlerResult, HandlerReturned

__all__ = ["Execution", "Executor", "HandlerRaised", "HandlerResult", "HandlerReturned"]
