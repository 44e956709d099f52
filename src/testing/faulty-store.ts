import type { Store } from '#core/ports/store'
import { StoreError } from '#core/store-error'

export type StoreMethod = 'claim' | 'reclaim' | 'finish' | 'insertFinished' | 'recordLate' | 'probe' | 'find'

/** A real store whose chosen methods fail while they are named in `failing`. */
export function faultyStore(store: Store, failing: Set<StoreMethod>): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...parameters: unknown[]): unknown => {
        const isFailing = [...failing].some((method) => method === name)
        if (isFailing) return Promise.reject(new StoreError('full', 'the disk is full'))
        return Reflect.apply(value, target, parameters)
      }
    },
  })
}
