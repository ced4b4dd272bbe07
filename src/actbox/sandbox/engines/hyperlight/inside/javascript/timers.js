// Timers: the machine has none, so the host sleeps, while the program only waits.

const timers = { waiting: new Map(), last: 0 };

function setTimer(action, ms, args, repeats) {
  const after = Math.max(Number(ms) || 0, repeats ? 1 : 0);
  timers.waiting.set(++timers.last, { action, args, due: Date.now() + after, every: repeats ? after : null });
  return timers.last;
}

async function until(promise) {
  let settled = false;
  const settle = () => { settled = true; };
  promise.then(settle, settle);
  for (;;) {
    for (let turn = 0; turn < 200 && !settled; turn++) await null;
    if (settled) return promise;
    let first = null;
    for (const [id, timer] of timers.waiting) if (first === null || timer.due < first[1].due) first = [id, timer];
    for (let turn = 0; first === null && turn < 100000 && !settled; turn++) await null;
    if (settled) return promise;
    if (first === null) throw new Error("the program awaits what never comes");
    const [id, timer] = first;
    const ms = timer.due - Date.now();
    if (ms > 0) ask({ t: "sleep", seconds: Math.min(ms / 1000, 1e9) });
    if (timer.every === null) timers.waiting.delete(id);
    else timer.due = Date.now() + timer.every;
    timer.action(...timer.args);
  }
}
