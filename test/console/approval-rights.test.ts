import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { checkAxe, useConsole } from './harness.ts'

const KEYS = { agent: 'a'.repeat(40), bob: 'b'.repeat(40), auditor: 'f'.repeat(40) }
const CONFIG = `
const tool = (definition) => ({ [Symbol.for('collet.tool')]: true, output: {}, run: () => 'done', ...definition })
const text = { type: 'string', description: 'A text.' }
const policy = { safetyTier: 'write', approval: 'always' }
export default {
  tools: [
    tool({ id: 'Bank.Pay@1.0.0', description: 'Pays.', input: { type: 'object', properties: { to: text } }, policy }),
    tool({ id: 'Ops.Shell@1.0.0', description: 'Runs a command.', input: { type: 'object' }, policy }),
  ],
  sources: {
    Host: {
      type: 'command', vendor: 'acme', isolation: 'none',
      commands: { say: { argv: ['echo', '{link}'], description: 'Says it.', input: { type: 'object', properties: { link: text } } } },
    },
  },
  approvals: { perTool: { 'Ops.Shell': { quorum: 2 } } },
  auth: {
    apiKeys: [
      { id: 'agent', key: '${KEYS.agent}' },
      { id: 'bob', key: '${KEYS.bob}', scopes: ['approvals:respond'] },
      { id: 'auditor', key: '${KEYS.auditor}', scopes: ['approvals:read', 'admin:calls', 'audit:read'] },
    ],
  },
}
`

describe('what people may do with an approval', () => {
  const console_ = useConsole({ config: CONFIG })
  const bob = { key: KEYS.bob }
  const decision = (page: Page) => page.locator('.decide')
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

  async function call(tool: string, input: object, more: object = {}): Promise<string> {
    const answer = await fetch(`${console_.url}/tools/call`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEYS.agent}`, 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: tool, input, ...more } }),
    })
    return await answer.text()
  }
  async function park(tool: string, input: object, more: object = {}): Promise<string> {
    const [, id = ''] = /\/approvals\/([\w-]+)"/.exec(await call(tool, input, more)) ?? []
    expect(id).not.toBe('')
    return id
  }

  it('also names the lesser scope to a credential that may not see approvals', async () => {
    const page = await console_.page({ path: '/approvals', as: { key: KEYS.agent } })
    await page.getByText('This needs the scope approvals:read or approvals:respond').waitFor()
  })

  it('shows an auditor who approved, when and why, without the arguments and without a way to decide', async () => {
    const input = { to: 'audited', note: 'not for auditors' }
    const id = await park('Bank.Pay', input, { call_id: 'audit-1' })
    const page = await console_.page({ path: `/approvals/${id}`, as: { key: KEYS.auditor } })
    await page.getByText('Deciding needs the scope approvals:respond.').waitFor()
    await page.getByText('The arguments are shown to people with the scope approvals:respond.').waitFor()
    for (const name of ['Approve once', 'Reject', 'Link…', 'Waiting for me'])
      expect(await button(page, name).count(), name).toBe(0)
    await console_.admin(`/admin/approvals/${id}/approve`, {
      method: 'POST',
      body: '{"reason":"I know them."}',
    })
    await call('Bank.Pay', input, { call_id: 'audit-1' })
    await decision(page)
      .getByText(/^Approved by operator at .*, and the call has been run\.$/)
      .waitFor()
    await decision(page).getByText('operator: I know them.').waitFor()
    expect(await page.content()).not.toContain('not for auditors')
    await checkAxe(page, 'an approval as auditors see it')
    await page.getByRole('link', { name: /^[\w-]{20,}$/ }).click()
    const story = page.getByRole('list', { name: 'What happened' })
    await story.getByText('Approved by operator').waitFor()
    await story.getByText('“I know them.”').waitFor()
  })

  it('offers no deciding link where the server does not permit one, and explains why', async () => {
    for (const [tool, reason] of [
      ['Host.say', 'Not available for tools that run commands'],
      ['Ops.Shell', 'Not available if several people must approve'],
    ] as const) {
      const id = await park(tool, { link: tool })
      const page = await console_.page({ path: `/approvals/${id}`, as: bob })
      await button(page, 'Link…').click()
      const dialog = page.getByRole('dialog', { name: 'Share approval link' })
      await dialog.getByText(reason).waitFor()
      expect(await dialog.getByRole('radio', { name: /^Decide/ }).isDisabled()).toBe(true)
      expect(await dialog.getByRole('radio', { name: /^View/ }).isChecked()).toBe(true)
      await dialog.getByRole('textbox', { name: 'Approver' }).fill('dana@acme.io')
      await checkAxe(page, 'a link that only shows')
      await button(page, 'Make link').click()
      await dialog.getByText('a person who has it can see the call').waitFor()
      expect(console_.sent(page, /\/link$/).map(({ body }) => body)).toEqual([
        { approver: 'dana@acme.io', power: 'inspect' },
      ])
      await console_.admin(`/admin/approvals/${id}/reject`, { method: 'POST', body: '{"reason":"no"}' })
    }
  })
})
