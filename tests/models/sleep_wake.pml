/* base/doorbell.h, as a protocol: publishers that look for sleepers, sleepers that look once more, and a futex
 * that compares and queues in one step. Sequentially consistent: the fences that make it so are checked under
 * Relacy (doorbell_model.cc). There is no time-out here, so a lost wake-up is a deadlock.
 *
 * claim:   every sleeper takes every message; no state is reached in which nobody can move
 * mutants: NO_RECHECK LATE_ANNOUNCE LATE_SEEN WAKE_BEFORE_PUBLISH NO_COMPARE NO_RING WAKE_ONE
 *          RETRY_SAME_COUNT
 */
#define PUBLISHERS 2
#define SLEEPERS 2
#ifdef SMALL
#define MESSAGES 1
#else
#define MESSAGES 2
#endif

byte published;        /* the awaited word: messages of all publishers */
byte sleepers, rings;  /* the doorbell */
bool queued[SLEEPERS]; /* in the kernel's queue for `rings` */
byte finished;

inline ring_bell() {
  if
  :: sleepers > 0 ->
#ifndef NO_RING
    rings++;
#endif
#ifdef WAKE_ONE
    atomic {
      if
      :: queued[0] -> queued[0] = false
      :: !queued[0] && queued[1] -> queued[1] = false
      :: else
      fi
    }
#else
    atomic { queued[0] = false; queued[1] = false }
#endif
  :: else
  fi
}

proctype Publisher() {
  byte i;
  for (i : 1 .. MESSAGES) {
#ifdef WAKE_BEFORE_PUBLISH
    ring_bell();
    published++;
#else
    published++;
    ring_bell();
#endif
  }
}

proctype Sleeper(byte me) {
  byte want = 1, seen;
  do
  :: want > PUBLISHERS * MESSAGES -> break
  :: want <= PUBLISHERS * MESSAGES && published >= want -> want++
  :: want <= PUBLISHERS * MESSAGES && published < want ->
#ifdef LATE_ANNOUNCE
    seen = rings;
    if
    :: published >= want -> goto awake
    :: else
    fi;
    sleepers++;
#else
    seen = rings;
    sleepers++;
#ifdef LATE_SEEN
    if
    :: published >= want -> goto announced
    :: else
    fi;
    seen = rings;
#else
#ifndef NO_RECHECK
    if
    :: published >= want -> goto announced
    :: else
    fi;
#endif
#endif
#endif
compare:
    atomic {
      if
#ifdef NO_COMPARE
      :: true -> queued[me] = true
#else
      :: rings == seen -> queued[me] = true
#ifdef RETRY_SAME_COUNT
      :: else -> goto compare
#else
      :: else
#endif
#endif
      fi
    }
    !queued[me];
announced:
    sleepers--;
awake:
    skip
  od;
  finished++
}

init {
  atomic {
    byte i;
    for (i : 1 .. PUBLISHERS) { run Publisher() }
    for (i : 1 .. SLEEPERS) { run Sleeper(i - 1) }
  }
}

ltl everybody_wakes { <> (finished == SLEEPERS) }
