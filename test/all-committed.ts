import type { Store } from '#store/collet-store'

/** Lets what was begun be committed, and what follows from that, a few commits deep. */
export async function allCommitted(store: Store): Promise<void> {
  for (let round = 0; round < 3; round += 1) {
    await new Promise(setImmediate)
    await store.probe()
  }
}
