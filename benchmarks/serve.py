"""The peers' side of serve.hpp: answers requests, one a line."""
import sys
import time
from collections.abc import Callable


class Case:
    """Made at its first request: `make` returns the numbers it computes, the call to be timed, and perhaps what waits for
    calls that are still under way on another device."""

    def __init__(self, make: Callable):
        self.make, self.made = make, None

    def parts(self):
        if self.made is None:
            self.made = self.make()
        return self.made

    def seconds(self, calls: int) -> float:
        _, call, *wait = self.parts()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        for each in wait:
            each()
        return (time.perf_counter() - begin) / calls


def serve(cases: dict[str, Callable]) -> None:
    made = {name: Case(make) for name, make in cases.items()}
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is not an answer
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        command, *words = line.split()
        numbers = {"time": 2, "tail": 1}.get(command, 0)
        case = made[" ".join(words[numbers:])]
        if command == "check":
            result = case.parts()[0]()
        elif command == "time":
            result = [min(case.seconds(int(words[1])) for _ in range(int(words[0])))]
        else:
            each = sorted(case.seconds(1) for _ in range(int(words[0])))
            result = [each[int(share * (len(each) - 1))] for share in (0, 0.5, 0.99, 0.999)]
        print(" ".join(f"{number:.9g}" for number in result), file=answers, flush=True)
