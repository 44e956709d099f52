import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import type { ConsoleHarness } from './harness.ts'

const BUILT = pathToFileURL(join(import.meta.dirname, '../../dist/index.js')).href
export const WATCHER = 'a-key-of-who-watches-calls-all-day'
export const VIEWER = 'a-key-of-who-may-see-what-happened'
export const BOT = 'a-key-of-a-bot-that-calls-tools-00'

export const CONFIG = `
import { tool, workflow } from '${BUILT}'
const make = (id, policy, run) =>
  tool({ id, description: 'Does something.', input: { type: 'object' }, output: {}, policy, run })
const read = { safetyTier: 'read' }
const write = { safetyTier: 'write' }
const charge = make('stripe.charges_retrieve@1.0.0', { ...read, egress: 'none' }, () => ({ paid: true }))
const refund = make('stripe.refunds_create@1.0.0', { ...write, egress: 'none' }, () => ({ id: 're_1' }))
const pay = make('Bank.Pay@2.0.0', { ...write, approval: 'always' }, () => 'paid')
const key = (id, key, scopes) => ({ id, key, scopes, tenant: 'acme' })
export default {
  ...(process.env.DATABASE_URL ? { store: process.env.DATABASE_URL } : {}),
  auth: {
    apiKeys: [
      key('watcher', '${WATCHER}', ['admin:calls', 'calls:read', 'calls:settle', 'approvals:respond']),
      key('viewer', '${VIEWER}', ['admin:calls']),
      key('support-bot', '${BOT}', ['admin:calls']),
    ],
  },
  tools: [
    make('Gmail.GetEmails@1.2.0', read, (input) => ({ said: input.text ?? 'nothing' })),
    make('Gmail.SendEmail@1.2.0', write, () => process.kill(process.pid, 'SIGKILL')),
    make('github.add_labels@1.0.0', write, () => { throw new Error('no such label') }),
    make('shell.wait@1.0.0', write, (_, { signal }) => new Promise((_, no) => signal.addEventListener('abort', () => no(new Error('stopped'))))),
    pay,
    charge,
    refund,
    workflow({
      id: 'Refunds.Issue@3.0.1', description: 'Refunds.', input: { type: 'object' }, output: {}, uses: [charge, refund],
      run: async (input, { call }) => [await call(charge, input), await call(refund, input)],
    }),
    workflow({
      id: 'Orders.Ship@1.0.0', description: 'Ships.', input: { type: 'object' }, output: {}, uses: [charge, pay],
      run: async (input, { call }) => [await call(charge, input, { step: 'is it paid?' }), await call(pay, input)],
    }),
  ],
}
`

/** Calls a tool as a program does, from outside of the browser. */
export async function call(
  { url }: ConsoleHarness,
  tool: string,
  id: string,
  input: object = {},
): Promise<Record<string, unknown>> {
  const answer = await fetch(`${url}/tools/call`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': BOT },
    body: JSON.stringify({ request: { tool_id: tool, call_id: id, input } }),
  }).catch(() => undefined)
  return answer === undefined ? {} : JSON.parse(await answer.text())
}

export const rows = (page: Page) => page.locator('table.calls tbody tr[data-record]')
export const rowOf = (page: Page, tool: string) => rows(page).filter({ hasText: tool })
export const detail = (page: Page) => page.getByRole('complementary', { name: 'Call' })
export const echo = (page: Page) => page.locator('.echo code')
