// What the parts of a block share: the running fiber, waiting, and the order of asynchronous work.
#pragma once

#include <functional>
#include <vector>

#include "block.h"

/// Asynchronous work happens when it is waited for, not when it is issued.
extern bool late;
extern unsigned shared_bytes;

/// Lets other fibers run until the word differs from `value`.
void wait_while(const long* word, long value);
/// Work that nothing waits for yet: done when no fiber can run.
extern std::function<bool()> overdue;
/// Forgets what a block left behind.
void reset_tensor();

/// A place where threads meet; the last to come does the work.
struct Meeting {
    unsigned here = 0;
    long round = 0;
    template <typename F> void meet(unsigned size, F work) {
        long mine = round;
        if (++here == size) {
            here = 0, work(), round++;
            return;
        }
        wait_while(&round, mine);
    }
};
