"""Optimizer: keeps the index fast while it is written, at a cost that follows the new rows."""

from freshet.optimizer.actions import Action, Kind, Plan, Refusal
from freshet.optimizer.limits import Limits
from freshet.optimizer.optimizer import Optimizer, RunReport
from freshet.optimizer.plan import Situation, Wanted, plan
from freshet.optimizer.records import Done, Records

__all__ = [
    "Action",
    "Done",
    "Kind",
    "Limits",
    "Optimizer",
    "Plan",
    "Records",
    "Refusal",
    "RunReport",
    "Situation",
    "Wanted",
    "plan",
]
