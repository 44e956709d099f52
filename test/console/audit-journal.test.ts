import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { verified } from '../contracts/receipt-store-contract.ts'
import { checkAxe, shoot, useConsole } from './harness.ts'

const BUILT = pathToFileURL(join(import.meta.dirname, '../../dist/index.js')).href
const KEYS = {
  auditor: 'key-of-an-auditor-who-only-reads-the-audit',
  bot: 'key-of-a-bot-that-calls-tools-all-day-000',
  ann: 'key-of-ann-who-approves-payments-00000000',
  far: 'key-of-an-auditor-of-another-tenant-00000',
}
const REASON = 'Invoice 4711 checked with the customer, amount and account are correct.'

const collet = useConsole({
  config: `
import { tool } from '${BUILT}'
const key = (id, key, scopes, tenant = 'acme') => ({ id, key, scopes, tenant })
export default {
  auth: { apiKeys: [
    key('auditor', '${KEYS.auditor}', ['audit:read']),
    key('bot', '${KEYS.bot}', []),
    key('ann', '${KEYS.ann}', ['approvals:respond']),
    key('far', '${KEYS.far}', ['audit:read'], 'beta'),
  ] },
  tools: [
    tool({ id: 'Bank.Payout@1.0.0', description: 'Pays.', input: { type: 'object' }, output: {}, policy: { safetyTier: 'write', approval: 'always' }, run: () => 'paid' }),
    tool({ id: 'Mail.Read@1.0.0', description: 'Reads.', input: { type: 'object' }, output: {}, policy: { safetyTier: 'write' }, run: () => 1 }),
  ],
}
`,
})

const ask = async (path: string, key: string, body?: object) => {
  const response = await fetch(`${collet.url}${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'content-type': 'application/json', 'x-api-key': key },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return JSON.parse(await response.text())
}
const call = (tool: string, id: string) =>
  ask('/tools/call', KEYS.bot, { request: { tool_id: tool, call_id: id, input: { to: 'ACME' } } })
const rows = (page: Page) => page.getByRole('list', { name: /Events of the journal/ }).getByRole('listitem')

beforeAll(async () => {
  await call('Bank.Payout', 'pay-1')
  const { approvals } = await ask('/admin/approvals', KEYS.ann)
  await ask(`/admin/approvals/${approvals[0].id}/approve`, KEYS.ann, { reason: REASON })
  await call('Bank.Payout', 'pay-1')
  for (let n = 0; n < 30; n += 1) await call('Mail.Read', `mail-${n}`)
})

describe('Audit: the journal', () => {
  it('shows an auditor who approved a payment, and why', async () => {
    const page = await collet.page({ path: '/', as: { key: KEYS.auditor } })
    await page.waitForURL(/\/console\/audit/)
    await page.getByRole('textbox', { name: 'Object' }).fill('payout')
    await rows(page).filter({ hasText: REASON }).getByRole('button').click()
    const event = page.getByRole('complementary', { name: 'Event' })
    await event.getByRole('heading', { name: 'key:ann approved a call to Bank.Payout@1.0.0' }).waitFor()
    await event.getByText(REASON).first().waitFor()
    await event.getByText(/^group \d+ of writer /).waitFor()
    expect(await event.getByRole('link', { name: 'Show call' }).count()).toBe(0)
    await event.getByRole('button', { name: 'key:ann' }).click()
    await expect.poll(() => rows(page).count()).toBe(1)
    expect(new URL(page.url()).searchParams.get('person')).toBe('key:ann')
    expect(await page.locator('.echo code').innerText()).toBe(
      'collet journal --person key:ann --object payout --since 7d',
    )
    await checkAxe(page, 'the journal')
  })

  it('saves a receipt of the call, which proves the approval', async () => {
    const page = await collet.page({ path: '/audit?action=approval.granted', as: { key: KEYS.auditor } })
    await rows(page).first().getByRole('button').click()
    const saved = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Save receipt' }).click()
    const file = await saved
    expect(file.suggestedFilename()).toMatch(/^collet-receipt-[\w-]+\.jsonl$/)
    const { calls } = await verified(readFileSync(await file.path()))
    expect(calls[0]?.facts.flatMap(({ events }) => events.map(({ reason }) => reason))).toContain(REASON)
    await page.goto(`${collet.url}/console/audit?action=call.receipt_made`)
    await rows(page)
      .filter({ hasText: 'key:auditor made a receipt of a call to Bank.Payout@1.0.0' })
      .first()
      .waitFor()
  })

  it('shows an auditor nothing of another tenant', async () => {
    const page = await collet.page({ path: '/audit', as: { key: KEYS.far } })
    await page.getByText('No events in this period').waitFor()
    expect(await page.getByRole('textbox', { name: 'Tenant' }).count()).toBe(0)
    expect(await page.getByRole('tab', { name: 'Verification' }).count()).toBe(0)
  })

  it('exports what it shows, and offers only what the person may see', async () => {
    const page = await collet.page({ path: '/audit?action=approval', as: { key: KEYS.auditor } })
    await rows(page).first().waitFor()
    await page.getByRole('button', { name: 'Export' }).click()
    const dialog = page.getByRole('dialog', { name: 'Export' })
    expect(await dialog.getByRole('radio', { name: /^Calls/ }).isDisabled()).toBe(true)
    await dialog.getByText('Needs the scope admin:calls').first().waitFor()
    await checkAxe(page, 'the export dialog')
    await shoot(page, 'audit-export')
    const saved = page.waitForEvent('download')
    await dialog.getByRole('button', { name: 'Download' }).click()
    const text = readFileSync(await (await saved).path(), 'utf8')
    expect(text.split('\r\n')[0]).toContain('who,who_name,tenant')
    expect(text).toContain(REASON)
    expect(text).not.toContain('Mail.Read')
  })

  it('announces new events, and shows them on request', async () => {
    const page = await collet.page({ path: '/audit?object=Mail.Read', as: 'operator' })
    await rows(page).first().waitFor()
    await call('Mail.Read', 'mail-new')
    await page.getByRole('button', { name: '2 new events' }).click()
    await page.getByRole('button', { name: '2 new events' }).waitFor({ state: 'detached' })
    await rows(page).first().getByRole('button').click()
    await page.getByRole('link', { name: 'Show call' }).click()
    await page.waitForURL(/\/console\/calls\//)
  })

  it('is readable at any width', async () => {
    for (const width of [390, 1024, 1440]) {
      const page = await collet.page({ path: '/audit', as: 'operator', width, height: 900 })
      await rows(page).first().waitFor()
      await checkAxe(page, `the journal at ${width}`)
      await shoot(page, `audit-${width}`)
      await page.getByRole('textbox', { name: 'Object' }).fill('Bank')
      await rows(page).filter({ hasText: REASON }).getByRole('button').click()
      await page.getByRole('complementary', { name: 'Event' }).waitFor()
      await checkAxe(page, `an event at ${width}`)
      await shoot(page, `audit-event-${width}`)
    }
  })
})

describe('the page that verifies receipts', () => {
  const receipt = async (): Promise<Buffer> => {
    const { events } = await ask('/admin/journal/events?action=approval.granted', KEYS.auditor)
    const response = await fetch(`${collet.url}/admin/receipts`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': KEYS.auditor },
      body: JSON.stringify({ records: [events[0].record] }),
    })
    return Buffer.from(await response.text())
  }
  const choose = (page: Page, buffer: Buffer) =>
    page
      .locator('input[type=file]')
      .setInputFiles({ name: 'receipt.jsonl', mimeType: 'application/jsonl', buffer })

  it('checks a file without a sign-in, and sends nothing of it', async () => {
    for (const width of [390, 1440]) {
      const page = await collet.page({ path: '/verify', width })
      await choose(page, await receipt())
      await page.getByText('The file is unchanged.').waitFor()
      await page.getByText('This server publishes this key.').waitFor()
      await page.getByText('Bank.Payout@1.0.0').first().waitFor()
      await page.getByText(REASON).waitFor()
      await page.getByText('That the server recorded the truth, and every call.').waitFor()
      await checkAxe(page, `a valid receipt at ${width}`)
      await shoot(page, `verify-${width}`)
      expect(collet.sent(page)).toEqual([])
    }
  })

  it('refuses a file that was changed, and says that a key is of another server', async () => {
    const page = await collet.page({ path: '/verify' })
    const file = await receipt()
    await choose(page, Buffer.from(file.toString().replace('Invoice 4711', 'Invoice 4712')))
    await page.getByText('The file is not valid.').waitFor()
    await checkAxe(page, 'a receipt that was changed')
    await page.route('**/.well-known/collet-receipt-keys.json', (route) =>
      route.fulfill({ json: { keys: [] } }),
    )
    await page.reload()
    await choose(page, file)
    await page.getByText('This server does not publish this key.').waitFor()
  })
})
