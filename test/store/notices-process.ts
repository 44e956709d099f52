import type { Webhook } from '#config/webhooks'
import { SYSTEM_CLOCK } from '#kernel/base/clock'
import { SILENT_LOGGER } from '#kernel/base/logger'
import { NOTICE_KINDS } from '#kernel/journal/notices'
import { startOutbox } from '#server/webhooks/outbox'
import { openStore } from '#store/stores'
import { sampleParking } from '../contracts/approval-store-contract.ts'
import { sampleCall } from '../contracts/samples.ts'

/**
 * A replica that delivers notices until it is killed. With `act` it first makes one change of each kind that causes a notice, and
 * leaves a call running.
 */
const [url = '', masterKey = '', receiver = '', act = ''] = process.argv.slice(2)
const store = await openStore(url, {
  ...{ dataFolder: '.', masterKey: Buffer.from(masterKey, 'base64'), mode: 'server' },
})
const webhook: Webhook = {
  ...{ name: 'ops', target: 'ops', url: receiver, events: ['*'], kinds: new Set(NOTICE_KINDS) },
  ...{ secret: undefined, approver: undefined },
  format: 'json',
}
store.notices.listen([webhook])
const atMs = Date.now()
if (act === 'act') {
  const held = { type: 'pin.held', at: atMs, source: 'Mail', tool: 'Mail.Send', hash: 'h', class: 'breaking' }
  const window = { tenant: 'acme', principal: undefined, lengthMs: 3_600_000, startMs: atMs }
  const spent = { calls: 10, milliseconds: 0, cost: 0 }
  await store.claim(sampleCall({ record: 'cut', callId: 'cut', fingerprint: 'cut', rerunUntilMs: 0 }))
  await store.approvals.park(sampleCall({ atMs }), sampleParking({ expiresAtMs: atMs + 3_600_000 }))
  await store.pins.write({
    ...{ source: 'Mail', seen: 0, pins: [], changesServed: false },
    events: [{ ...held, type: 'pin.held', class: 'breaking' }],
  })
  await store.budgets.lease(window, spent, { calls: 10, milliseconds: 1, cost: 1 }, atMs)
}
const outbox = startOutbox({
  ...{ store, fetch, clock: SYSTEM_CLOCK, log: SILENT_LOGGER, canSignIn: false },
  webhooks: () => [webhook],
  publicUrl: () => 'https://tools.example',
})
process.stdout.write('ready\n')
// Held on purpose: an unreachable store is garbage collected, and its lock with it.
setInterval(() => outbox, 60_000)
