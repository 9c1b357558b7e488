/* Poison reaches every rank, wherever it stands on its way to sleep (base/wait.cc, Waiter::wait_slow). Each rank
 * awaits a message that its dead peer never sends; two ranks detect the death, or abort, at the same time. Each
 * of them poisons the job's word and rings every doorbell. No time-out here: in the product, a poison that is
 * missed costs a liveness period; here it is a deadlock.
 *
 * claim:   every rank ends, with the first poison as its reason
 * mutants: NO_POISON_RECHECK RING_BEFORE_POISON RING_FIRST_ONLY NO_LOOK_BEFORE_SLEEP LAST_POISON_WINS
 */
#ifdef SMALL
#define RANKS 2
#else
#define RANKS 3
#endif
#define ABORTERS 2

byte poison;             /* 0: none, else who */
byte first;              /* who came first */
byte sleepers[RANKS], rings[RANKS];
bool queued[RANKS];
byte ended;

inline ring_all() {
  for (b : 0 .. RANKS - 1) {
#ifdef RING_FIRST_ONLY
    if
    :: b == 0
    :: else -> goto next
    fi;
#endif
    if
    :: sleepers[b] > 0 -> rings[b]++; queued[b] = false
    :: else
    fi;
next:
    skip
  }
}

proctype Aborter(byte who) {
  byte b;
#ifdef RING_BEFORE_POISON
  ring_all();
#endif
  atomic {
#ifdef LAST_POISON_WINS
    if
    :: poison == 0 -> first = who
    :: else
    fi;
    poison = who
#else
    if
    :: poison == 0 -> poison = who; first = who
    :: else
    fi
#endif
  }
#ifndef RING_BEFORE_POISON
  ring_all();
#endif
}

proctype Rank(byte me) {
  byte seen;
  do
  :: poison != 0 -> break
  :: else ->
    seen = rings[me];
    sleepers[me]++;
#ifndef NO_POISON_RECHECK
    if
    :: poison != 0 -> goto announced
    :: else
    fi;
#endif
    atomic {
      if
#ifdef NO_LOOK_BEFORE_SLEEP
      :: true -> queued[me] = true
#else
      :: rings[me] == seen -> queued[me] = true
      :: else
#endif
      fi
    }
    !queued[me];
announced:
    sleepers[me]--
  od;
  atomic {
    assert(poison == first);
    ended++
  }
}

init {
  atomic {
    byte i;
    for (i : 1 .. ABORTERS) { run Aborter(i) }
    for (i : 1 .. RANKS) { run Rank(i - 1) }
  }
}

ltl everybody_ends { <> (ended == RANKS) }
