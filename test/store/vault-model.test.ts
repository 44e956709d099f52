import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Secret } from '#kernel/base/secret'
import type { Store } from '#store/collet-store'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import type { VaultAddress } from '#store/vault'
import { StoreFolder } from './store-folder.ts'

const few = (...texts: readonly string[]) => fc.constantFrom(...texts)
const address: fc.Arbitrary<VaultAddress> = fc.record({
  tenant: few('t', 'u'),
  principal: few('key:a', 'key:a"', '["t"'),
  user: few('', 'x'),
  provider: few('p', 'p,q'),
  kind: fc.constantFrom('secret' as const, 'token' as const),
})
const step = fc.oneof(
  fc.record({ do: fc.constant('put' as const), at: address, value: fc.string({ minLength: 1 }) }),
  fc.record({ do: fc.constant('remove' as const), at: address }),
  fc.record({ do: fc.constant('renew' as const), at: address, value: fc.string({ minLength: 1 }) }),
  fc.record({ do: fc.constant('spend' as const), at: address }),
  fc.constant({ do: 'rotate' as const }),
)

const nameOf = (at: VaultAddress) => JSON.stringify([at.tenant, at.principal, at.user, at.provider, at.kind])

async function runSteps(
  store: Store,
  steps: readonly (typeof step extends fc.Arbitrary<infer S> ? S : never)[],
) {
  const model = new Map<string, string | undefined>()
  let serial = 0
  for (const each of steps) {
    serial += 1
    if (each.do === 'rotate') {
      await store.vault.rotate('cli:ann', serial)
      continue
    }
    const { at } = each
    const found = await store.vault.find(at)
    const name = nameOf(at)
    const before = model.get(name)
    const change = { scopes: [], expiresAtMs: undefined, atMs: serial }
    if (each.do === 'put') {
      await store.vault.put({
        ...at,
        ...change,
        by: 'cli:ann',
        ref: `cred_${serial}`,
        value: new Secret(each.value),
      })
      model.set(name, each.value)
    } else if (found !== undefined && each.do === 'remove') {
      await store.vault.remove(found, 'cli:ann', serial)
      model.delete(name)
    } else if (found !== undefined && each.do === 'spend') {
      await store.vault.spend(found, serial)
      model.set(name, undefined)
    } else if (found?.value !== undefined && each.do === 'renew') {
      await store.vault.renew(found, { ...change, value: new Secret(each.value) })
      model.set(name, each.value)
    }
    expect(found?.value?.reveal()).toBe(before)
  }
  const all = await store.vault.list({ limit: 1_000 })
  expect(all.map(nameOf).sort()).toEqual([...model.keys()].sort())
  for (const facts of all)
    expect((await store.vault.find(facts))?.value?.reveal()).toBe(model.get(nameOf(facts)))
}

describe('the vault, for all orders of changes', () => {
  it('rule 24: memory has exactly the last value of each address', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), (steps) => runSteps(openMemoryStore(), steps)),
    )
  })

  it('rule 24: SQLite has exactly the last value of each address', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const folder = new StoreFolder()
        try {
          await runSteps(folder.open(), steps)
        } finally {
          await folder.remove()
        }
      }),
      { numRuns: 15 },
    )
  })
})
