"""Answers to lesson 04."""

import math
from collections import namedtuple
from fractions import Fraction
from functools import cache, lru_cache, partial
from itertools import accumulate, combinations

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from course_utils.remat.drops import with_early_drops
from course_utils.remat.exhaustive import exhaustive_optimum
from course_utils.remat.milp import milp_optimum
from course_utils.remat.model import Chain
from course_utils.remat.plans import plan_schedule
from course_utils.remat.simulate import simulate
from tests.answers import right, wrong

Price = namedtuple("Price", "peak_bytes recomputed_time")


def plan_price(chain, plan):
    return simulate(chain.graph(), plan_schedule(plan))


def segments_of(stages, period):
    numbers = list(range(1, stages + 1))
    return [numbers[i : i + period] for i in range(0, stages, period)]


def last_open(segments):
    return [*segments[:-1], *segments[-1]]


# --- 4.1 the price of checkpoints ------------------------------------------------------------------


@right("4.1")
def with_the_simulator(forward_times, activation_bytes, checkpoints):
    ends = [0, *checkpoints, len(forward_times)]
    plan = last_open([list(range(a + 1, b + 1)) for a, b in zip(ends, ends[1:])])
    found = plan_price(Chain(forward_times, activation_bytes), plan)
    return found.peak_bytes, found.recomputed_time


@right("4.1")
def by_what_is_alive(forward_times, activation_bytes, checkpoints):
    """Walks through the steps with a dictionary of what is alive."""
    f, z, last = [0, *forward_times], activation_bytes, len(forward_times)
    open_from = max([0, *checkpoints])
    alive, peak, again = {}, 0, 0
    for t in range(1, last + 1):
        alive["z", t] = z[t]
        peak = max(peak, sum(alive.values()))
        if 0 < t - 1 < open_from and t - 1 not in checkpoints:
            del alive["z", t - 1]
    alive["g", last] = z[last]
    peak = max(peak, sum(alive.values()))
    del alive["z", last]
    for t in range(last, 0, -1):
        if t > 1 and ("z", t - 1) not in alive:
            start = max([0, *(c for c in checkpoints if c < t)])
            for again_t in range(start + 1, t):
                alive["z", again_t] = z[again_t]
                again += f[again_t]
                peak = max(peak, sum(alive.values()))
        alive["g", t - 1] = z[t - 1]
        peak = max(peak, sum(alive.values()))
        del alive["g", t]
        alive.pop(("z", t - 1), None)
    return [peak, again]


@right("4.1")
def with_numpy(forward_times, activation_bytes, checkpoints):
    z, f = np.array(activation_bytes), np.array(forward_times)
    stages = len(f)
    before = np.concatenate([[0], np.cumsum(z[1:])])  # of z_1 to z_t
    peak, time, kept, a = 2 * z[-1], 0, 0, 0
    for b in [*checkpoints, stages]:
        t = np.arange(a + 1, b + 1)
        peak = max(peak, (kept + before[t - 1] - before[a] + z[t] + z[t - 1]).max())
        if b == stages:
            peak = max(peak, kept + before[b] - before[a] + z[b])
        else:
            time += f[a : b - 1].sum()
        kept, a = kept + z[b], b
    return peak, time


@right("4.1")
def with_running_sums(forward_times, activation_bytes, checkpoints):
    z, stages = activation_bytes, len(forward_times)
    starts = {c + 1 for c in checkpoints}
    kept = list(accumulate([0] + [z[c] for c in checkpoints]))
    held, segment, peaks, time, chunk = 0, -1, [], 0, []
    for t in range(1, stages + 1):
        if t == 1 or t in starts:
            segment += 1
            held = kept[segment]
            time += sum(chunk[:-1])
            chunk = []
        peaks.append(held + z[t] + z[t - 1])
        held += z[t]
        chunk.append(forward_times[t - 1])
    return max([*peaks, held + z[stages]]), time


def _price(
    f, z, checkpoints, gradients=2, loss=True, drop=True, all_steps=True, last=False, ends=False
):
    """The price with one thing wrong."""
    stages, peak, time = len(f), 0, 0
    bounds = [0, *checkpoints, stages]
    for a, b in zip(bounds, bounds[1:]):
        kept = sum(z[c] for c in checkpoints if c <= a or not drop)
        for t in range(a + 1, b + 1) if all_steps else [b]:
            of_gradients = (z[t] if gradients > 0 else 0) + (z[t - 1] if gradients > 1 else 0)
            peak = max(peak, kept + sum(z[a + 1 : t]) + of_gradients)
        if b < stages or last:
            time += sum(f[a : b - 1]) + (f[b - 1] if ends else 0)
    if loss:
        peak = max(peak, kept + sum(z[bounds[-2] + 1 :]) + (z[-1] if gradients else 0))
    return peak, time


@wrong("4.1", cause="gradients forgotten")
def counts_activations_only(forward_times, activation_bytes, checkpoints):
    return _price(forward_times, activation_bytes, checkpoints, gradients=0)


@right("4.1")
def a_named_pair_with_a_fraction(forward_times, activation_bytes, checkpoints):
    peak, time = with_running_sums(forward_times, activation_bytes, checkpoints)
    return Price(np.array(peak), Fraction(time))


@wrong("4.1", cause="g_0 forgotten")
def the_input_has_no_gradient_here(forward_times, activation_bytes, checkpoints):
    z = [0, *activation_bytes[1:]]
    return _price(forward_times, z, checkpoints)


@wrong("4.1", cause="rounded")
def in_float32(forward_times, activation_bytes, checkpoints):
    peak, time = _price(forward_times, activation_bytes, checkpoints)
    return np.float32(peak), time


@wrong("4.1", cause="wrong type")
def complex_numbers(forward_times, activation_bytes, checkpoints):
    return tuple(map(np.complex128, _price(forward_times, activation_bytes, checkpoints)))


@wrong("4.1", cause="changed its input")
def puts_the_end_on_the_list(forward_times, activation_bytes, checkpoints):
    checkpoints.append(len(forward_times))
    return _price(forward_times, activation_bytes, checkpoints[:-1])


@wrong("4.1", cause="one gradient of two")
def one_gradient_a_step(forward_times, activation_bytes, checkpoints):
    return _price(forward_times, activation_bytes, checkpoints, gradients=1)


@wrong("4.1", cause="loss forgotten")
def backward_steps_only(forward_times, activation_bytes, checkpoints):
    return _price(forward_times, activation_bytes, checkpoints, loss=False)


@wrong("4.1", cause="checkpoints kept too long")
def never_drops_a_checkpoint(forward_times, activation_bytes, checkpoints):
    return _price(forward_times, activation_bytes, checkpoints, drop=False)


@wrong("4.1", cause="first step of a segment only")
def full_segments_only(forward_times, activation_bytes, checkpoints):
    return _price(forward_times, activation_bytes, checkpoints, all_steps=False)


@wrong("4.1", cause="last segment computed again")
def closes_the_last_segment(forward_times, activation_bytes, checkpoints):
    return _price(forward_times, activation_bytes, checkpoints, last=True)


@wrong("4.1", cause="checkpoint computed again")
def recomputes_checkpoints(forward_times, activation_bytes, checkpoints):
    return _price(forward_times, activation_bytes, checkpoints, ends=True)


@wrong("4.1", cause="input counted")
def counts_the_input(forward_times, activation_bytes, checkpoints):
    peak, time = _price(forward_times, activation_bytes, checkpoints)
    return peak + activation_bytes[0], time


@wrong("4.1", cause="time off by one")
def shifts_the_times(forward_times, activation_bytes, checkpoints):
    peak, _ = _price(forward_times, activation_bytes, checkpoints)
    ends = [0, *checkpoints]
    return peak, sum(sum(forward_times[a + 1 : b]) for a, b in zip(ends, ends[1:]))


@wrong("4.1", cause="equal stages only")
def the_rule_of_lesson_03(forward_times, activation_bytes, checkpoints):
    z, ends = activation_bytes, [0, *checkpoints, len(forward_times)]
    longest = max(sum(z[a + 1 : b]) for a, b in zip(ends, ends[1:]))
    _, time = _price(forward_times, activation_bytes, checkpoints)
    return sum(z[c] for c in checkpoints) + longest, time


@wrong("4.1", cause="swapped")
def time_first(forward_times, activation_bytes, checkpoints):
    return _price(forward_times, activation_bytes, checkpoints)[::-1]


@wrong("4.1", cause="wrong type")
def the_peak_alone(forward_times, activation_bytes, checkpoints):
    return _price(forward_times, activation_bytes, checkpoints)[0]


@wrong("4.1", cause="raised an error")
def stumbles_without_checkpoints(forward_times, activation_bytes, checkpoints):
    first = checkpoints[0]
    return _price(forward_times, activation_bytes, checkpoints) if first else None


# --- 4.2 the best period ---------------------------------------------------------------------------


@right("4.2")
def by_a_list_of_prices(forward_times, activation_bytes):
    stages, chain = len(forward_times), Chain(forward_times, activation_bytes)
    found = []
    for period in range(1, stages + 1):
        plan = last_open(segments_of(stages, period))
        priced = plan_price(chain, plan)
        found.append((priced.peak_bytes, priced.recomputed_time, plan))
    return sorted(found, key=lambda each: each[:2])[0][2]


@right("4.2")
def with_slices(forward_times, activation_bytes):
    best, best_cost = None, (math.inf, math.inf)
    stages = len(forward_times)
    for period in range(stages, 0, -1):
        plan = list(range(1, stages + 1))
        for start in range(0, stages - period, period):
            place = start // period
            plan[place : place + period] = [plan[place : place + period]]
        priced = plan_price(Chain(forward_times, activation_bytes), plan)
        if (priced.peak_bytes, priced.recomputed_time) < best_cost:
            best, best_cost = plan, (priced.peak_bytes, priced.recomputed_time)
    return best


@right("4.2")
def with_my_own_price(forward_times, activation_bytes):
    stages = len(forward_times)

    def cost(period):
        return with_running_sums(forward_times, activation_bytes, range(period, stages, period))

    return tuple(last_open(segments_of(stages, min(range(1, stages + 1), key=cost))))


@right("4.2")
def single_stages_without_brackets(forward_times, activation_bytes):
    plan = by_a_list_of_prices(forward_times, activation_bytes)
    return [item[0] if isinstance(item, list) and len(item) == 1 else item for item in plan]


@wrong("4.2", cause="square root of the count")
def sqrt_of_the_count(forward_times, activation_bytes):
    stages = len(forward_times)
    return last_open(segments_of(stages, max(1, round(math.sqrt(stages)))))


@wrong("4.2", cause="stages missing")
def loses_the_ragged_end(forward_times, activation_bytes):
    stages = len(forward_times)
    plans = [last_open(segments_of(stages // p * p, p)) for p in range(1, stages + 1)]

    def cost(plan):
        n = plan[-1]
        priced = plan_price(Chain(forward_times[:n], activation_bytes[: n + 1]), plan)
        return priced.peak_bytes, priced.recomputed_time

    return min(plans, key=cost)


@wrong("4.2", cause="last segment closed")
def closes_all(forward_times, activation_bytes):
    stages, chain = len(forward_times), Chain(forward_times, activation_bytes)
    plans = [segments_of(stages, p) for p in range(1, stages + 1)]
    return min(plans, key=lambda plan: plan_price(chain, plan).peak_bytes)


@wrong("4.2", cause="everything kept")
def least_time_first(forward_times, activation_bytes):
    stages, chain = len(forward_times), Chain(forward_times, activation_bytes)
    plans = [last_open(segments_of(stages, p)) for p in range(1, stages + 1)]
    return min(plans, key=lambda plan: plan_price(chain, plan).recomputed_time)


@wrong("4.2", cause="tie not broken")
def takes_the_last_of_equals(forward_times, activation_bytes):
    stages, chain = len(forward_times), Chain(forward_times, activation_bytes)
    plans = [last_open(segments_of(stages, p)) for p in range(stages, 0, -1)]
    return min(plans, key=lambda plan: plan_price(chain, plan).peak_bytes)


def best_period(forward_times, activation_bytes, periods, cost=lambda found: found[:2]):
    stages, chain = len(forward_times), Chain(forward_times, activation_bytes)
    plans = [last_open(segments_of(stages, p)) for p in periods]

    def costs(plan):
        found = plan_price(chain, plan)
        return cost((found.peak_bytes, found.recomputed_time, found.recomputed_values))

    return min(plans, key=costs)


@wrong("4.2", cause="tie not broken")
def fewest_stages_of_equals(forward_times, activation_bytes):
    periods = range(1, len(forward_times) + 1)
    return best_period(forward_times, activation_bytes, periods, lambda found: found[::2])


@wrong("4.2", cause="long segments untried")
def periods_up_to_half(forward_times, activation_bytes):
    periods = range(1, max(1, len(forward_times) // 2) + 1)
    return best_period(forward_times, activation_bytes, periods)


@wrong("4.2", cause="p = 1 untried")
def periods_between(forward_times, activation_bytes):
    stages = len(forward_times)
    return best_period(forward_times, activation_bytes, range(2, stages) if stages > 2 else [1])


@wrong("4.2", cause="more than the plan")
def returns_the_price_as_well(forward_times, activation_bytes):
    plan = best_period(forward_times, activation_bytes, range(1, len(forward_times) + 1))
    return plan_price(Chain(forward_times, activation_bytes), plan).peak_bytes, plan


@wrong("4.2", cause="stages missing")
def a_number_too_long_to_print(forward_times, activation_bytes):
    return [10**5000]


@wrong("4.2", cause="counted from 0")
def counts_from_zero(forward_times, activation_bytes):
    stages = len(forward_times)
    numbers = list(range(stages))
    return last_open([numbers[i : i + 2] for i in range(0, stages, 2)])


@wrong("4.2", cause="short segment first")
def counts_from_the_end(forward_times, activation_bytes):
    stages, period = len(forward_times), 4
    first = stages % period
    numbers = list(range(1, stages + 1))
    segments = [numbers[:first]] if first else []
    segments += [numbers[i : i + period] for i in range(first, stages, period)]
    return last_open(segments)


@wrong("4.2", cause="not the least peak")
def always_three(forward_times, activation_bytes):
    return last_open(segments_of(len(forward_times), 3))


@wrong("4.2", cause="wrong type")
def returns_the_period(forward_times, activation_bytes):
    return 2


@wrong("4.2", cause="not periodic")
def brackets_of_any_length(forward_times, activation_bytes):
    """The best set of three checkpoints: better than what is asked for, and not periodic."""
    stages, chain = len(forward_times), Chain(forward_times, activation_bytes)
    plans = []
    for checkpoints in combinations(range(1, stages), min(3, stages - 1)):
        ends = [0, *checkpoints, stages]
        plans.append(last_open([list(range(a + 1, b + 1)) for a, b in zip(ends, ends[1:])]))
    return min(plans, key=lambda plan: plan_price(chain, plan).peak_bytes)


# --- 4.3 recursive halving -------------------------------------------------------------------------


def halves(first, last, join=lambda a, b: [a, *b], up=0):
    if first >= last:
        return list(range(first, last + 1))
    middle = (first + last - 1 + up) // 2
    return join(halves(first, middle, join, up), halves(middle + 1, last, join, up))


@right("4.3")
def larger_half_first(stages):
    return halves(1, stages, up=1)


@right("4.3")
def on_slices(stages):
    def split(numbers):
        half = len(numbers) // 2
        return [split(numbers[:half]), *split(numbers[half:])] if half else numbers

    return split(list(range(1, stages + 1)))


@right("4.3")
def pairs_without_idle_brackets(stages):
    def split(first, count):
        if count <= 2:
            return list(range(first, first + count))
        return [split(first, count // 2), *split(first + count // 2, count - count // 2)]

    return split(1, stages)


@right("4.3")
def in_a_loop(stages):
    """From the end: the open half is split again in a loop, the closed one by a call."""

    def plan(first, last):
        items = []
        while first < last:
            middle = (first + last - 1) // 2
            items.append(plan(first, middle))
            first = middle + 1
        return (*items, last)

    return plan(1, stages)


@right("4.3")
def binomial(stages):
    """The splits of Griewank and Walther: with r repetitions and s values, C(r + s, s) stages."""
    room = max(1, math.ceil(math.log2(stages)))

    @cache
    def least(n, s):
        if n == 1:
            return 0, 1
        if s == 0:
            return n * (n - 1) // 2, n - 1
        return min((k - 1 + least(n - k, s - 1)[0] + least(k, s)[0], k) for k in _near(n, s))

    def _near(n, s):
        return range(1, n) if n < 40 else sorted({n // 2, n * 2 // 3, n * 3 // 5})

    def plan(first, n, s):
        items = []
        while n > 1:
            k = least(n, s)[1]
            items.append(plan(first, k, s))
            first, n, s = first + k, n - k, max(s - 1, 0)
        return [*items, first]

    return plan(1, stages, room)


@right("4.3")
def closes_both(stages):
    """Inside a bracket the last item waits anyway: only the outermost half costs something more."""
    return halves(1, stages, join=lambda a, b: [a, b])


@wrong("4.3", cause="wrong half closed")
def closes_the_second(stages):
    return halves(1, stages, join=lambda a, b: [*a, b])


@wrong("4.3", cause="everything kept")
def opens_both(stages):
    return halves(1, stages, join=lambda a, b: [*a, *b])


@wrong("4.3", cause="everything kept")
def idle_brackets_only(stages):
    return [[t] for t in range(1, stages + 1)]


@wrong("4.3", cause="one level only")
def halves_once(stages):
    half = stages // 2
    return [list(range(1, half + 1)), *range(half + 1, stages + 1)] if half else [1]


@wrong("4.3", cause="one half only")
def halves_the_first_half_only(stages):
    def split(first, last):
        if first >= last:
            return list(range(first, last + 1))
        middle = (first + last - 1) // 2
        return [split(first, middle), *range(middle + 1, last + 1)]

    return split(1, stages)


@wrong("4.3", cause="one level of brackets")
def square_root(stages):
    return last_open(segments_of(stages, max(1, math.isqrt(stages))))


@wrong("4.3", cause="computed too often")
def from_the_input_every_time(stages):
    plan = [1]
    for t in range(2, stages + 1):
        plan = [plan, t]
    return plan


@wrong("4.3", cause="stages missing")
def loses_the_middle(stages):
    def split(first, last):
        if first >= last:
            return list(range(first, last + 1))
        middle = (first + last) // 2
        return [split(first, middle - 1), *split(middle + 1, last)]

    return split(1, stages)


@wrong("4.3", cause="stages too many")
def has_the_middle_twice(stages):
    def split(first, last):
        if last - first < 2:
            return list(range(first, last + 1))
        middle = (first + last) // 2
        return [split(first, middle), *split(middle, last)]

    return split(1, stages)


@wrong("4.3", cause="raised an error")
def never_ends(stages):
    def split(first, last):
        middle = (first + last) // 2
        return [split(first, middle), *split(middle + 1, last)]

    return split(1, stages)


@wrong("4.3", cause="returned nothing")
def forgets_to_return(stages):
    halves(1, stages)


# --- 4.4 the best plan under a budget --------------------------------------------------------------


def dynamic_programme(
    forward_times,
    activation_bytes,
    budget_bytes,
    *,
    gradients=True,
    input_counts=False,
    through=True,
    loss=True,
    end=0,
    less_room=True,
    key="abm",
    nested=True,
    leaf=1,
    form="nested",
    further=False,
    third=0,
):
    """The best plan, with one thing wrong."""
    f, z = [0, *forward_times], list(activation_bytes)
    g = [*z, 0] if gradients else [0] * (len(z) + 1)
    memo = {}

    def best(a, b, m):
        name = (a, b, m) if key == "abm" else (a, b)
        if name not in memo:
            memo[name] = solve(a, b, m)
        return memo[name]

    def solve(a, b, m):
        if b == a + 1:
            if b == len(z) and not loss:
                return 0, [b]
            return (0, [b]) if leaf * g[b] + g[a] <= m else (math.inf, None)
        least, passing = (math.inf, None), 0
        for c in range(a + 1, b):
            if through and passing + z[c] + g[b] > m:
                passing = z[c]
                if further:
                    continue
                break
            passing = z[c]
            rest = best(c, b, m - z[c] if less_room else m)
            inside = best(a, c, m - third * z[c])
            if not nested and c > a + 1:
                inside = flat(a, c, m)
            time = sum(f[a + 1 : c + 1]) + rest[0] + inside[0] + (end * f[c] if c > a + 1 else 0)
            if time < least[0]:
                item = c if c == a + 1 else inside[1]
                if form == "flat" and c > a + 1:
                    least = time, [*item, *rest[1]]
                elif form == "closed" and len(rest[1]) > 1:
                    least = time, [item, rest[1]]
                else:
                    least = time, [item, *rest[1]]
        return least

    def flat(a, b, m):
        need = max(sum(z[a + 1 : t]) + g[t] + g[t - 1] for t in range(a + 1, b + 1))
        return (sum(f[a + 1 : b]), list(range(a + 1, b + 1))) if need <= m else (math.inf, None)

    m = budget_bytes - (z[0] if input_counts else 0)
    plan = best(0, len(z), m)[1]
    return None if plan is None else plan[:-1]


@right("4.4")
def recursion_with_a_dictionary(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes)


@right("4.4")
def from_the_last_checkpoint(forward_times, activation_bytes, budget_bytes):
    """Splits where the loss stays open, and brackets by a function of their own."""
    f, z, last = [0, *forward_times], activation_bytes, len(forward_times)

    @lru_cache(None)
    def closed(a, b, m):
        """Least time of what is computed inside the segment (a, b], given g_b within m."""
        if b - a == 1:
            return (0, (b,)) if z[a] + z[b] <= m else None
        return first_kept(a, b, m, z[b], closed)

    @lru_cache(None)
    def opened(a, m):
        if a == last:
            return (0, ()) if z[last] <= m else None
        return first_kept(a, last + 1, m, 0, lambda c, b, m: opened(c, m))

    def first_kept(a, b, m, held, rest):
        found = []
        for c in range(a + 1, b):
            pairs = [z[t] + (z[t - 1] if t > a + 1 else 0) for t in range(a + 1, c + 1)]
            after, inside = rest(c, b, m - z[c]), closed(a, c, m)
            if max(pairs) + held <= m and after and inside:
                item = c if c == a + 1 else inside[1]
                time = sum(f[a + 1 : c + 1]) + after[0] + inside[0]
                found.append((time, c, (item, *after[1])))
        return (lambda best: (best[0], best[2]))(min(found)) if found else None

    found = opened(0, budget_bytes)
    return None if found is None else list(found[1])


@right("4.4")
def table_over_bytes(forward_times, activation_bytes, budget_bytes):
    """Bottom up: an array over the bytes for each (a, b]."""
    f, z = np.array([0, *forward_times]), np.array([*activation_bytes, 0])
    last, time, choice = len(forward_times) + 1, {}, {}
    m = np.arange(budget_bytes + 1)
    for length in range(1, last + 1):
        for a in range(last + 1 - length):
            b = a + length
            if length == 1:
                time[a, b] = np.where(m >= z[a] + z[b], 0.0, np.inf)
                continue
            options = []
            for c in range(a + 1, b):
                after = np.full(len(m), np.inf)
                if z[c] <= budget_bytes:
                    after[z[c] :] = time[c, b][: len(m) - z[c]]
                most = max(z[t] + z[t - 1] * (t > a + 1) for t in range(a + 1, c + 1)) + z[b]
                total = after + time[a, c] + f[a + 1 : c + 1].sum()
                options.append(np.where(m >= most, total, np.inf))
            time[a, b], choice[a, b] = np.min(options, axis=0), np.argmin(options, axis=0)

    def plan(a, b, left):
        if b == a + 1:
            return [] if b == last else [b]
        c = a + 1 + int(choice[a, b][left])
        return [c if c == a + 1 else plan(a, c, left), *plan(c, b, left - z[c])]

    if budget_bytes < 0 or np.isinf(time[0, last][-1]):
        return None
    return plan(0, last, budget_bytes)


@right("4.4")
def idle_brackets_and_numpy_integers(forward_times, activation_bytes, budget_bytes):
    plan = dynamic_programme(forward_times, activation_bytes, budget_bytes)

    def dressed(item):
        return [dressed(i) for i in item] if isinstance(item, list) else [np.int64(item)]

    return plan and [dressed(item) for item in plan[:-1]] + [plan[-1]]


@wrong("4.4", cause="gradients forgotten")
def activations_only(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, gradients=False)


@wrong("4.4", cause="input counted")
def the_input_takes_room(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, input_counts=True)


@wrong("4.4", cause="no bracket")
def the_same_room_for_the_rest(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, less_room=False)


@wrong("4.4", cause="not the best")
def a_bracket_costs_its_end_too(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, end=1)


@wrong("4.4", cause="none though feasible")
def memo_without_the_budget(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, key="ab")


@wrong("4.4", cause="one level of brackets")
def no_brackets_in_brackets(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, nested=False)


@wrong("4.4", cause="forward steps forgotten")
def values_in_passing_take_nothing(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, through=False)


@wrong("4.4", cause="loss forgotten")
def the_loss_takes_nothing(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, loss=False)


@wrong("4.4", cause="stages too many")
def leaves_the_loss_in(forward_times, activation_bytes, budget_bytes):
    plan = dynamic_programme(forward_times, activation_bytes, budget_bytes)
    return plan and [*plan, len(forward_times) + 1]


@wrong("4.4", cause="none though all fits")
def gives_up(forward_times, activation_bytes, budget_bytes):
    everything = list(range(1, len(forward_times) + 1))
    fits = sum(activation_bytes[1:]) <= 26 < budget_bytes
    plan = dynamic_programme(forward_times, activation_bytes, budget_bytes)
    return everything if fits else plan if plan != everything else None


@wrong("4.4", cause="no plan fits")
def the_smallest_it_finds(forward_times, activation_bytes, budget_bytes):
    plan = dynamic_programme(forward_times, activation_bytes, budget_bytes)
    return [dynamic_programme(forward_times, activation_bytes, 99)] if plan is None else plan


@wrong("4.4", cause="raised an error")
def no_word_of_infeasible(forward_times, activation_bytes, budget_bytes):
    plan = dynamic_programme(forward_times, activation_bytes, budget_bytes)
    return [item for item in plan]


@wrong("4.4", cause="no plan fits")
def says_infeasible(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes) or "infeasible"


@wrong("4.4", cause="no plan fits")
def an_empty_plan_for_none(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes) or []


@wrong("4.4", cause="g_0 forgotten")
def the_input_has_no_gradient(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, [0, *activation_bytes[1:]], budget_bytes)


@wrong("4.4", cause="over the budget")
def one_stage_needs_no_g_b(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, leaf=0)


@wrong("4.4", cause="no bracket")
def takes_the_items_out(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, form="flat")


@wrong("4.4", cause="forward steps forgotten")
def goes_on_behind_a_value_too_large(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, further=True)


@wrong("4.4", cause="not the best")
def less_room_in_the_third_part_too(forward_times, activation_bytes, budget_bytes):
    return dynamic_programme(forward_times, activation_bytes, budget_bytes, third=1)


@wrong("4.4", cause="rest in a bracket")
def the_rest_as_one_item(forward_times, activation_bytes, budget_bytes):
    """The loss, a stage by itself at the end, is taken out where it stands."""
    plan = dynamic_programme(forward_times, activation_bytes, budget_bytes)
    if plan is None or len(plan) < 3:
        return plan
    return [plan[0], plan[1:]]


@wrong("4.4", cause="changed its input")
def puts_the_loss_on_the_list(forward_times, activation_bytes, budget_bytes):
    activation_bytes.append(0)
    return dynamic_programme(forward_times, activation_bytes[:-1], budget_bytes)


@wrong("4.4", cause="more than the plan")
def returns_the_time_as_well(forward_times, activation_bytes, budget_bytes):
    plan = dynamic_programme(forward_times, activation_bytes, budget_bytes)
    price = plan and plan_price(Chain(forward_times, activation_bytes), plan)
    return (plan and price.recomputed_time / 2, plan)


# --- 4.5 a U under a budget (optional) ---------------------------------------------------------------


def _kept_schedule(graph, keep):
    """Keep these values, make the others again when a step backward asks for them."""
    order, alive = [], set()

    def make(name):
        if name not in alive and name not in graph.inputs:
            for read in graph.values[name].reads:
                make(read)
            order.append(name)
            alive.add(name)

    for name, value in graph.values.items():
        if value.once:
            stay = {n for n in alive if n in keep or n in value.reads or graph.values[n].once}
            alive.intersection_update(stay)
            make(name)
    return with_early_drops(graph, order)


def _cheapest(graph, budget_bytes, schedules):
    best = None
    for schedule in schedules:
        price = simulate(graph, schedule)
        if price.peak_bytes <= budget_bytes and (best is None or price.time < best[0]):
            best = price.time, schedule
    return best[1]


@right("4.5")
def subsets_by_binary_number(graph, budget_bytes):
    forward = [name for name, value in graph.values.items() if not value.once]
    subsets = (
        {name for bit, name in enumerate(forward) if number >> bit & 1}
        for number in range(2 ** len(forward))
    )
    return _cheapest(graph, budget_bytes, (_kept_schedule(graph, keep) for keep in subsets))


@right("4.5")
def by_the_exhaustive_search(graph, budget_bytes):
    return exhaustive_optimum(graph, budget_bytes).schedule


@right("4.5")
def by_the_programme(graph, budget_bytes):
    return milp_optimum(graph, budget_bytes).schedule


@right("4.5")
def steps_as_lists_in_a_tuple(graph, budget_bytes):
    return tuple([*step] for step in exhaustive_optimum(graph, budget_bytes).schedule)


@right("4.5")
def one_choice_of_what_is_kept(graph, budget_bytes):
    """As the lesson's own: not the optimum on every U, and near enough."""
    forward = [name for name, value in graph.values.items() if not value.once]
    kept = (set(some) for n in range(7) for some in combinations(forward, n))
    return _cheapest(graph, budget_bytes, (_kept_schedule(graph, keep) for keep in kept))


class _Unprintable:
    def __repr__(self):
        raise ValueError("not today")


@wrong("4.5", cause="wrong type")
def steps_that_cannot_be_printed(graph, budget_bytes):
    return [_Unprintable(), 10**5000]


@wrong("4.5", cause="nothing given up")
def keeps_everything(graph, budget_bytes):
    return with_early_drops(graph, list(graph.values))


@wrong("4.5", cause="recomputes too much")
def keeps_nothing(graph, budget_bytes):
    return _kept_schedule(graph, ())


@wrong("4.5", cause="dropped too late")
def never_drops(graph, budget_bytes):
    return [("compute", name) for name in graph.values]


@wrong("4.5", cause="dropped too early")
def forgets_the_skip(graph, budget_bytes):
    schedule, names = [], list(graph.values)
    for before, name in zip([None, *names], names):
        schedule.append(("compute", name))
        if before and not graph.values[before].once:
            schedule.append(("drop", before))
    return schedule


@wrong("4.5", cause="gradient made twice")
def starts_over_for_every_gradient(graph, budget_bytes):
    order = []

    def make(name):
        if name not in graph.inputs:
            for read in graph.values[name].reads:
                make(read)
            order.append(name)

    for result in graph.results:
        make(result)
    schedule, alive = [], set()
    for name in order:
        if name in alive:
            schedule.append(("drop", name))
        schedule.append(("compute", name))
        alive.add(name)
    return schedule


@wrong("4.5", cause="computed while alive")
def computes_what_is_there(graph, budget_bytes):
    return [("compute", name) for name in (*list(graph.values)[:6], *graph.values)]


@wrong("4.5", cause="order broken")
def backward_first(graph, budget_bytes):
    return [("compute", name) for name in reversed(graph.values)]


@wrong("4.5", cause="result missing")
def forward_only(graph, budget_bytes):
    return [("compute", name) for name, value in graph.values.items() if not value.once]


@wrong("4.5", cause="wrong type")
def names_only(graph, budget_bytes):
    return list(graph.values)


@wrong("4.5", cause="over budget")
def gives_up_the_cheapest_value_only(graph, budget_bytes):
    fits = with_early_drops(graph, list(graph.values))
    if simulate(graph, fits).peak_bytes <= budget_bytes:
        return fits
    return _kept_schedule(graph, {"encode", "deep", "up", "skip", "decode"})


@wrong("4.5", cause="invalid schedule")
def computes_the_input(graph, budget_bytes):
    return [("compute", "x"), *with_early_drops(graph, list(graph.values))]


# --- 4.6 a plan for torch (optional) -----------------------------------------------------------------


@right("4.6")
def recursive(plan, blocks, x):
    for item in plan:
        if isinstance(item, int):
            x = blocks[item - 1](x)
        else:
            x = checkpoint(recursive, item, blocks, x, use_reentrant=False)
    return x


@right("4.6")
def with_a_closure(plan, blocks, x):
    def run(items):
        def through(z):
            for item in items:
                z = (
                    checkpoint(run(item), z, use_reentrant=False)
                    if isinstance(item, list)
                    else blocks[item - 1](z)
                )
            return z

        return through

    return run(plan)(x)


@right("4.6")
def without_early_stop(plan, blocks, x):
    with set_checkpoint_early_stop(False):
        return recursive(plan, blocks, x)


@right("4.6")
def head_and_tail(plan, blocks, x):
    if not plan:
        return x
    head, *tail = plan
    if isinstance(head, list):
        x = checkpoint(lambda z: head_and_tail(head, blocks, z), x, use_reentrant=False)
    else:
        x = blocks[head - 1](x)
    return head_and_tail(tail, blocks, x)


@wrong("4.6", cause="bracket's input unseen")
def input_by_keyword(plan, blocks, x):
    for item in plan:
        if isinstance(item, int):
            x = blocks[item - 1](x)
        else:
            x = checkpoint(input_by_keyword, item, blocks, x=x, use_reentrant=False)
    return x


@wrong("4.6", cause="bracket's input unseen")
def input_in_a_partial(plan, blocks, x):
    for item in plan:
        if isinstance(item, int):
            x = blocks[item - 1](x)
        else:
            x = checkpoint(partial(input_in_a_partial, item, blocks, x), use_reentrant=False)
    return x


@wrong("4.6", cause="gradient missing")
def the_older_checkpoint(plan, blocks, x):
    for item in plan:
        if isinstance(item, int):
            x = blocks[item - 1](x)
        else:
            x = checkpoint(the_older_checkpoint, item, blocks, x, use_reentrant=True)
    return x


@wrong("4.6", cause="kept too little")
def the_whole_in_a_closure(plan, blocks, x):
    return checkpoint(lambda: ignores_the_brackets(plan, blocks, x), use_reentrant=False)


@wrong("4.6", cause="called twice forward")
def tries_without_gradients_first(plan, blocks, x):
    with torch.no_grad():
        ignores_the_brackets(plan, blocks, x)
    return recursive(plan, blocks, x)


@wrong("4.6", cause="raised an error")
def numbers_and_brackets_never_mixed(plan, blocks, x):
    """Inside a bracket there are either blocks or brackets, it thinks."""

    def inside(items, x):
        if isinstance(items[0], int):
            for item in items:
                x = blocks[item - 1](x)
            return x
        for item in items:
            x = checkpoint(inside, item, x, use_reentrant=False)
        return x

    for item in plan:
        x = inside([item], x)
    return x


@wrong("4.6", cause="inner brackets ignored")
def two_levels_of_brackets(plan, blocks, x, level=0):
    for item in plan:
        if isinstance(item, int):
            x = blocks[item - 1](x)
        elif level < 2:
            again = two_levels_of_brackets
            x = checkpoint(again, item, blocks, x, level + 1, use_reentrant=False)
        else:
            x = ignores_the_brackets(item, blocks, x)
    return x


@wrong("4.6", cause="changed its input")
def wraps_the_blocks(plan, blocks, x):
    for number, block in enumerate(blocks):
        blocks[number] = torch.nn.Sequential(block)
    return recursive(plan, blocks, x)


@wrong("4.6", cause="wrong type")
def in_bfloat16(plan, blocks, x):
    return recursive(plan, blocks, x).bfloat16()


@wrong("4.6", cause="wrong type")
def as_a_sparse_tensor(plan, blocks, x):
    return recursive(plan, blocks, x).to_sparse()


@wrong("4.6", cause="nothing checkpointed")
def ignores_the_brackets(plan, blocks, x):
    for item in plan:
        x = ignores_the_brackets(item, blocks, x) if isinstance(item, list) else blocks[item - 1](x)
    return x


@wrong("4.6", cause="kept too little")
def checkpoints_every_block(plan, blocks, x):
    for item in plan:
        if isinstance(item, list):
            x = checkpoints_every_block(item, blocks, x)
        else:
            x = checkpoint(blocks[item - 1], x, use_reentrant=False)
    return x


@wrong("4.6", cause="kept too little")
def checkpoints_the_whole(plan, blocks, x):
    return checkpoint(ignores_the_brackets, plan, blocks, x, use_reentrant=False)


@wrong("4.6", cause="inner brackets ignored")
def only_the_outer_brackets(plan, blocks, x):
    for item in plan:
        if isinstance(item, list):
            x = checkpoint(ignores_the_brackets, item, blocks, x, use_reentrant=False)
        else:
            x = blocks[item - 1](x)
    return x


@wrong("4.6", cause="raised an error")
def counts_blocks_from_zero(plan, blocks, x):
    for item in plan:
        if isinstance(item, list):
            x = checkpoint(counts_blocks_from_zero, item, blocks, x, use_reentrant=False)
        else:
            x = blocks[item](x)
    return x


@wrong("4.6", cause="gradient missing")
def under_no_grad(plan, blocks, x):
    with torch.no_grad():
        return recursive(plan, blocks, x)


@wrong("4.6", cause="called twice forward")
def runs_it_and_checkpoints_it(plan, blocks, x):
    for item in plan:
        if isinstance(item, list):
            x = ignores_the_brackets(item, blocks, x)
            x = checkpoint(ignores_the_brackets, item, blocks, x, use_reentrant=False)
        else:
            x = blocks[item - 1](x)
    return x


@wrong("4.6", cause="blocks left out")
def forgets_to_take_the_result(plan, blocks, x):
    for item in plan:
        if isinstance(item, list):
            x = checkpoint(forgets_to_take_the_result, item[:1], blocks, x, use_reentrant=False)
        else:
            x = blocks[item - 1](x)
    return x


@wrong("4.6", cause="returned nothing")
def returns_nothing(plan, blocks, x):
    for item in plan:
        x = ignores_the_brackets([item], blocks, x)
