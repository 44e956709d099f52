import type { Store } from '#store/collet-store'

/** Waits for the changes in progress, and for changes that follow from them, over a few commits. */
export async function allCommitted(store: Store): Promise<void> {
  for (let round = 0; round < 3; round += 1) {
    await new Promise(setImmediate)
    await store.probe()
  }
}
