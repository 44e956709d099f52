import { StoreError } from '#core/errors'
import type { Store } from '#core/ports/store'

export type StoreMethod = 'claim' | 'reclaim' | 'finish' | 'insertFinished' | 'recordLate' | 'probe' | 'find'

/**
 * A real store whose chosen methods fail while they are named: those in `failing` do nothing, those in `failingAfter` do
 * what they are asked for and then say that it failed.
 */
export function faultyStore(
  store: Store,
  failing: ReadonlySet<StoreMethod>,
  failingAfter: ReadonlySet<StoreMethod> = new Set(),
): Store {
  const isNamed = (methods: ReadonlySet<StoreMethod>, name: string | symbol): boolean =>
    [...methods].some((method) => method === name)
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...parameters: unknown[]): unknown => {
        const failure = (): StoreError => new StoreError('full', 'the disk is full')
        if (isNamed(failing, name)) return Promise.reject(failure())
        const isLost = isNamed(failingAfter, name)
        const result: unknown = Reflect.apply(value, target, parameters)
        return isLost ? Promise.resolve(result).then(() => Promise.reject(failure())) : result
      }
    },
  })
}
