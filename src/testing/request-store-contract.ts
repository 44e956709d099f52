import assert from 'node:assert/strict'
import type { KeptReply, NewRequest } from '#core/ports/protocol-store'
import type { Store } from '#core/ports/store'
import type { ContractCase } from './contract.ts'
import { purgeAll } from './contract-steps.ts'

const REQUEST: NewRequest = { tenant: 'acme', id: 'request-1', asked: 'digest-1', expiresAtMs: 9_000 }
const REPLY: KeptReply = {
  status: 201,
  headers: { 'content-type': 'application/json' },
  body: '{"runId":"monday"}',
}

/** What every store promises about requests that have a key of their caller's own. */
export const REQUEST_STORE_CONTRACT: readonly ContractCase<Store>[] = [
  {
    name: 'OWP-92: of many that begin one request exactly one does, and the others learn who',
    async run(open) {
      const { requests, writer } = await open()
      const begun = await Promise.all(Array.from({ length: 5 }, async () => await requests.begin(REQUEST)))
      assert.equal(begun.filter(({ kind }) => kind === 'begun').length, 1)
      assert.deepEqual(await requests.begin(REQUEST), { kind: 'under_way', writer })
    },
  },
  {
    name: 'OWP-92: an answer is given again as it was, to the same request of the same tenant only',
    async run(open) {
      const { requests } = await open()
      await requests.begin(REQUEST)
      await requests.answer(REQUEST, REPLY, 90_000)
      assert.deepEqual(await requests.begin(REQUEST), { kind: 'answered', reply: REPLY })
      assert.deepEqual(await requests.begin({ ...REQUEST, asked: 'digest-2' }), { kind: 'mismatch' })
      assert.deepEqual(await requests.begin({ ...REQUEST, tenant: 'globex' }), { kind: 'begun' })
      await requests.answer(REQUEST, { ...REPLY, status: 409 }, 90_000)
      await requests.release(REQUEST)
      assert.deepEqual(await requests.begin(REQUEST), { kind: 'answered', reply: REPLY })
      const empty = { status: 204, headers: {}, body: undefined }
      await requests.answer({ ...REQUEST, tenant: 'globex' }, empty, 90_000)
      assert.deepEqual(await requests.begin({ ...REQUEST, tenant: 'globex' }), {
        kind: 'answered',
        reply: empty,
      })
    },
  },
  {
    name: 'OWP-92: a released request begins anew, also as another one',
    async run(open) {
      const { requests } = await open()
      await requests.begin(REQUEST)
      assert.deepEqual(await requests.begin({ ...REQUEST, asked: 'digest-2' }), { kind: 'mismatch' })
      await requests.release(REQUEST)
      assert.deepEqual(await requests.begin({ ...REQUEST, asked: 'digest-2' }), { kind: 'begun' })
    },
  },
  {
    name: 'OWP-92: a request is taken over only from the writer that has it',
    async run(open) {
      const { requests, writer } = await open()
      await requests.begin(REQUEST)
      assert.equal((await requests.begin({ ...REQUEST, insteadOf: 'another' })).kind, 'under_way')
      assert.equal((await requests.begin({ ...REQUEST, insteadOf: writer })).kind, 'begun')
      await requests.answer(REQUEST, REPLY, 90_000)
      assert.equal((await requests.begin({ ...REQUEST, insteadOf: writer })).kind, 'answered')
    },
  },
  {
    name: 'OWP-92: an answer is forgotten when it has expired, and not before',
    async run(open) {
      const store = await open()
      await store.requests.begin(REQUEST)
      await store.requests.answer(REQUEST, REPLY, 90_000)
      await purgeAll(store, 90_000)
      assert.equal((await store.requests.begin(REQUEST)).kind, 'answered')
      await purgeAll(store, 90_001)
      assert.equal((await store.requests.begin(REQUEST)).kind, 'begun')
    },
  },
]
