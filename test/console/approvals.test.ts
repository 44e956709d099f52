import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { checkAxe, shoot, useConsole } from './harness.ts'

const KEYS = {
  agent: 'a'.repeat(40),
  bob: 'b'.repeat(40),
  carol: 'c'.repeat(40),
  nobody: 'd'.repeat(40),
  north: 'e'.repeat(40),
}
const XSS = '<img src=x onerror="document.title=`owned`"><script>document.title="owned"</script>'

const configWith = (payment: string): string => `
const tool = (definition) => ({ [Symbol.for('collet.tool')]: true, output: {}, run: () => 'done', ...definition })
const text = { type: 'string', description: 'A text.' }
export default {
  tools: [
    tool({
      id: 'Bank.Pay@1.0.0',
      description: ${JSON.stringify(payment)},
      input: { type: 'object', properties: { to: text, note: text } },
      policy: { safetyTier: 'write', approval: 'always' },
    }),
    tool({
      id: 'Ops.Shell@1.0.0',
      description: 'Runs a command on the machines of the shop.',
      input: { type: 'object' },
      policy: { safetyTier: 'write', approval: 'always' },
    }),
    tool({
      id: 'Bank.Quick@1.0.0',
      description: 'Pays at once.',
      input: { type: 'object' },
      requirements: { secrets: [{ id: 'BANK_PIN' }] },
      policy: { safetyTier: 'write', approval: 'always' },
    }),
  ],
  approvals: { perTool: { 'Ops.Shell': { quorum: 2 } } },
  auth: {
    apiKeys: [
      { id: 'agent', key: '${KEYS.agent}' },
      { id: 'bob', key: '${KEYS.bob}', scopes: ['approvals:respond'] },
      { id: 'carol', key: '${KEYS.carol}', scopes: ['approvals:respond'] },
      { id: 'nobody', key: '${KEYS.nobody}' },
      { id: 'north', key: '${KEYS.north}', tenant: 'northwind' },
    ],
  },
}
`
const PAYS = 'Pays somebody from the account of the company.'

describe('Approvals', () => {
  const console_ = useConsole({ config: configWith(PAYS) })
  const [bob, carol] = [{ key: KEYS.bob }, { key: KEYS.carol }]

  /** The answer to a call. */
  async function call(tool: string, input: object, more: object = {}, key = KEYS.agent) {
    const answer = await fetch(`${console_.url}/tools/call`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: tool, input, ...more } }),
    })
    return await answer.text()
  }
  async function park(tool: string, input: object, more: object = {}): Promise<string> {
    const [, id = ''] = /\/approvals\/([\w-]+)"/.exec(await call(tool, input, more)) ?? []
    expect(id).not.toBe('')
    return id
  }
  const decision = (page: Page) => page.locator('.decide')
  const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

  it('shows new approvals live, with the exact input of the tool; approving lets the call run once', async () => {
    const page = await console_.page({ path: '/approvals', as: bob })
    await page.getByText('Nothing to decide').waitFor()
    const input = { to: 'ann', note: 'Invoice 7, for the repair of the roof in the street of the mill.' }
    await park('Bank.Pay', input, { call_id: 'pay-1' })
    // Without a reload.
    await page.getByRole('link', { name: /Bank\.Pay/ }).click()
    const shown = decision(page)
    await shown.getByRole('heading', { name: 'Arguments' }).waitFor()
    for (const text of ['key:agent', input.note, PAYS, 'Every call of this tool needs approval.', 'sha256:'])
      await shown.getByText(text).first().waitFor()
    await expect.poll(() => shown.locator('.expiry').textContent()).toMatch(/Expires in (30|29):\d\d/)
    await checkAxe(page, 'approvals')
    await shown.getByRole('button', { name: 'JSON' }).click()
    expect(await shown.locator('.args pre').textContent()).toBe(JSON.stringify(input, undefined, 2))
    await shown.getByRole('button', { name: 'Readable' }).click()
    await page.getByLabel('Reason').fill('I saw the roof.')
    await expect
      .poll(() => page.locator('.echo code').textContent())
      .toMatch(/^collet approvals approve [\w-]+ --reason 'I saw the roof\.'$/)
    await shoot(page, 'approvals')
    // Enter in a field decides nothing.
    await page.getByLabel('Reason').press('Enter')
    await button(page, 'Approve once').click()
    await shown.getByText(/^Approved by key:bob at .* It runs when the caller repeats the call\.$/).waitFor()
    expect(await button(page, 'Approve once').count()).toBe(0)
    expect(await call('Bank.Pay', input, { call_id: 'pay-1' })).toContain('done')
    await shown.getByText(/and the call has been run\.$/).waitFor()
    await page.getByRole('button', { name: 'Decided' }).click()
    await page.getByText('key:bob: I saw the roof.').first().waitFor()
    await shown.getByRole('link', { name: /^[\w-]{20,}$/ }).waitFor()
  })

  it('rejects only with a reason, which the caller reads', async () => {
    const id = await park('Bank.Pay', { to: 'eve' }, { call_id: 'pay-2' })
    const page = await console_.page({ path: `/approvals/${id}`, as: bob })
    await button(page, 'Reject').click()
    await page.getByRole('alert').getByText('Enter a reason').waitFor()
    expect(await page.getByLabel('Reason').and(page.locator(':focus')).count()).toBe(1)
    await page.getByLabel('Reason').fill('Nobody knows eve.')
    await button(page, 'Reject').click()
    await decision(page)
      .getByText(/^Rejected by key:bob/)
      .waitFor()
    expect(await call('Bank.Pay', { to: 'eve' }, { call_id: 'pay-2' })).toContain('Nobody knows eve.')
  })

  it('shows a command as separate words; two people have to approve; other viewers see each decision live', async () => {
    const argv = ['kubectl', 'rollout', 'restart', 'deployment/checkout', '5', '']
    const id = await park('Ops.Shell', { argv, cwd: '/srv/deploy', timeout_s: 120 })
    const [first, second] = [
      await console_.page({ path: `/approvals/${id}`, as: bob }),
      await console_.page({ path: `/approvals/${id}`, as: carol }),
    ]
    await expect
      .poll(() => first.locator('.argv code').allTextContents())
      .toEqual(['kubectl', 'rollout', 'restart', 'deployment/checkout', '"5"', '""'])
    await first.getByText('2 people must approve it; 0 have.').waitFor()
    await button(first, 'Approve once').click()
    await first.getByText('You have approved it. 1 more approval is needed.').first().waitFor()
    expect(await button(first, 'Approve once').getAttribute('aria-disabled')).toBe('true')
    await second.getByText('2 people must approve it; 1 has.').waitFor()
    await second
      .getByRole('link', { name: /Ops\.Shell/ })
      .getByText('1 of 2')
      .waitFor()
    await button(second, 'Approve once').click()
    await second
      .getByText(/^Approved by key:carol/)
      .first()
      .waitFor()
    // Decided by another person: the buttons disappear, approver and time stay.
    await first
      .getByText(/^Approved by key:carol/)
      .first()
      .waitFor()
    expect(await button(first, 'Reject').count()).toBe(0)
  })

  it('shows the operator, who sees all tenants, the tenant of each call, and counts what waits for a decision', async () => {
    await call('Bank.Pay', { to: 'north' }, { call_id: 'north-1' }, KEYS.north)
    const page = await console_.page({ path: '/approvals', as: 'operator' })
    const waiting = page.getByRole('link', { name: /Bank\.Pay.*tenant northwind/ })
    await waiting.click()
    await decision(page).getByText('key:north of the tenant northwind asks to run this once.').waitFor()
    await checkAxe(page, 'a call of a tenant')
    await page.getByRole('link', { name: /^Approvals \d+ waiting/ }).waitFor()
    await decision(page).getByLabel('Reason').fill('Not now.')
    await button(page, 'Reject').click()
    await page.getByRole('link', { name: /rejected.*tenant northwind/ }).waitFor()
    // A badge counts only what the person may decide.
    const carols = await console_.page({ path: '/approvals', as: carol })
    await carols.getByText('Nothing to decide').waitFor()
    expect(await carols.getByRole('link', { name: /^Approvals/ }).textContent()).toBe('Approvals')
    const title = await carols.getByRole('heading', { name: 'Nothing to decide' }).boundingBox()
    const bar = await carols.locator('header.bar').boundingBox()
    expect((title?.y ?? 0) - ((bar?.y ?? 0) + (bar?.height ?? 0))).toBeGreaterThan(20)
  })

  it('decides nothing if another person was first, and reports it', async () => {
    const id = await park('Bank.Pay', { to: 'race' })
    const page = await console_.page({ path: `/approvals/${id}`, as: bob })
    await button(page, 'Approve once').waitFor()
    // From here on the page gets no updates.
    await page.route('**/admin/approvals*', (route) => route.abort())
    await page.route(`**/admin/approvals/${id}`, (route) => route.abort())
    await console_.admin(`/admin/approvals/${id}/reject`, { method: 'POST', body: '{"reason":"no"}' })
    await page.unroute('**/admin/approvals*')
    await button(page, 'Approve once').click()
    await page.getByText('This has already been decided.').waitFor()
  })

  it('shows untrusted content as text: reasons, arguments, and characters that reorder text', async () => {
    const id = await park('Bank.Pay', { to: XSS, note: 'safe\u202eevil', [XSS]: [XSS, 'b\u200b'] })
    await console_.admin(`/admin/approvals/${id}/reject`, {
      method: 'POST',
      body: JSON.stringify({ reason: XSS }),
    })
    const page = await console_.page({ path: `/approvals/${id}`, as: bob })
    await decision(page).getByText('safe\\u202eevil').waitFor()
    await decision(page).getByText('b\\u200b').waitFor()
    expect(await decision(page).getByText(XSS).count()).toBeGreaterThanOrEqual(3)
    expect(await page.title()).toBe('Approvals · Collet')
    expect(await page.locator('img').count()).toBe(0)
  })

  it('explains why a credential may not approve, and why a person may not approve their own call', async () => {
    const own = await call('Bank.Pay', { to: 'myself' }, {}, KEYS.carol)
    const [, id = ''] = /\/approvals\/([\w-]+)"/.exec(own) ?? []
    const page = await console_.page({ path: '/approvals', as: carol })
    await page.getByRole('button', { name: 'All waiting' }).click()
    await page.locator(`a[href$="${id}"], a[href*="${id}?"]`).click()
    await page.getByText('This is your own call.').waitFor()
    expect(await button(page, 'Approve once').getAttribute('aria-disabled')).toBe('true')
    await page.getByRole('button', { name: 'Waiting for me' }).click()
    await page.getByText(/others? under All waiting/).waitFor()
    const limited = await console_.page({ path: '/approvals', as: { key: KEYS.nobody } })
    await limited.getByText(/scope approvals:read or approvals:respond/).waitFor()
  })

  it('announces that the time runs out, and closes the approval when it has expired', async () => {
    const id = await park('Bank.Pay', { to: 'slow' })
    const page = await console_.page({ path: '/approvals', as: bob })
    await page.clock.install({ time: Date.now() })
    await page.goto(`${console_.url}/console/approvals/${id}`)
    await button(page, 'Approve once').waitFor()
    await page.clock.fastForward('25:02')
    await expect
      .poll(() => page.getByRole('status').allTextContents())
      .toContain('This approval expires in 5 minutes')
    await page.clock.fastForward('04:00')
    await expect
      .poll(() => page.getByRole('status').allTextContents())
      .toContain('This approval expires in 1 minute')
    await page.clock.fastForward('01:10')
    await page.getByText('The time to decide has run out. The call will not run.').waitFor()
    expect(await button(page, 'Approve once').count()).toBe(0)
  })

  it('redirects a signed-in browser from the address that callers get to the console; others see the state', async () => {
    const id = await park('Bank.Pay', { to: 'led' })
    const page = await console_.page({ path: '/', as: bob })
    await page.goto(`${console_.url}/approvals/${id}`)
    expect(page.url()).toBe(`${console_.url}/console/approvals/${id}`)
    await button(page, 'Approve once').waitFor()
    const signedOut = await console_.page({ path: '/' })
    await signedOut.goto(`${console_.url}/approvals/${id}`)
    expect(signedOut.url()).toBe(`${console_.url}/approvals/${id}`)
    expect(await signedOut.textContent('body')).not.toContain('led')
  })

  describe('on a phone', () => {
    const PHONE = { width: 390, height: 844 }

    it('one decision fills the page, with a link back to the list', async () => {
      const id = await park('Bank.Pay', { to: 'phone' })
      const page = await console_.page({ path: '/approvals', as: bob, ...PHONE })
      await page.locator(`a[href*="${id}"]`).click()
      await button(page, 'Approve once').waitFor()
      expect(await page.locator('.inbox').isVisible()).toBe(false)
      await checkAxe(page, 'a decision on a phone')
      await shoot(page, 'approvals-390')
      await page.getByRole('link', { name: 'All approvals' }).click()
      await page.locator('.inbox').waitFor()
      await checkAxe(page, 'the inbox on a phone')
    })

    it('a one-time link opens a page that decides once, and then shows the result', async () => {
      const id = await park('Bank.Pay', { to: 'by link', note: XSS })
      const page = await console_.page({ path: `/approvals/${id}`, as: bob })
      await button(page, 'Link…').click()
      await button(page, 'Make link').click()
      await page.getByText('Enter a name').waitFor()
      await page.getByRole('textbox', { name: 'Approver' }).fill('dana@acme.io')
      await page.getByRole('radio', { name: /^View/ }).check()
      await page.getByRole('radio', { name: /^Decide/ }).check()
      await checkAxe(page, 'the dialog of a link')
      await button(page, 'Make link').click()
      const url = (await page.locator('.dialog pre').textContent()) ?? ''
      expect(console_.sent(page, /\/link$/).map(({ body }) => body)).toEqual([
        { approver: 'dana@acme.io', power: 'decide' },
      ])
      await button(page, 'Copy link').click()
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(url)
      await button(page, 'Done').click()
      const phone = await console_.page({ path: '/', ...PHONE })
      await phone.goto(url)
      await phone.getByRole('heading', { name: 'Bank.Pay' }).waitFor()
      await phone.getByText('by link').waitFor()
      await phone.getByText('as dana@acme.io').waitFor()
      await checkAxe(phone, 'the page of a link')
      await shoot(phone, 'approval-phone')
      expect(await phone.title()).not.toBe('owned')
      await phone.getByLabel('Reason').fill('From the train.')
      // Enter in the field decides nothing.
      await phone.getByLabel('Reason').press('Enter')
      await button(phone, 'Approve once').click()
      await phone.getByRole('heading', { name: 'You approved this call' }).waitFor()
      await checkAxe(phone, 'what became of it')
      await phone.goto(url)
      expect(await button(phone, 'Approve once').count()).toBe(0)
      // The page of the person who made the link updates without a reload.
      await page
        .getByText(/^Approved by link:dana@acme\.io/)
        .first()
        .waitFor()
    })
  })

  describe('after the tool has changed', () => {
    let id = ''
    beforeAll(async () => {
      id = await park('Bank.Pay', { to: 'old' })
      writeFileSync(join(console_.folder, 'collet.config.mjs'), configWith('Pays whoever asks, twice.'))
      await console_.restart()
    })

    it('shows what changed since the call was made; the call can then only be rejected', async () => {
      const page = await console_.page({ path: `/approvals/${id}`, as: bob })
      await decision(page).getByText('so the call can only be rejected').waitFor()
      expect(await page.locator('.changed .diff .del').textContent()).toContain(PAYS)
      expect(await page.locator('.changed .diff .add').textContent()).toContain('Pays whoever asks, twice.')
      expect(await button(page, 'Approve once').getAttribute('aria-disabled')).toBe('true')
      await checkAxe(page, 'a stale approval')
      await shoot(page, 'approvals-stale')
      await page.getByLabel('Reason').fill('The tool is another one.')
      await expect.poll(() => page.locator('.echo code').textContent()).toContain('collet approvals reject')
      await button(page, 'Reject').click()
      await page
        .getByText(/^Rejected by key:bob/)
        .first()
        .waitFor()
    })
  })
})

describe('Approvals on PostgreSQL', () => {
  const console_ = useConsole({ config: configWith(PAYS), engine: 'postgres' })

  it('shows a waiting call, and approving lets it run', async () => {
    const call = async (): Promise<string> => {
      const answer = await fetch(`${console_.url}/tools/call`, {
        method: 'POST',
        headers: { authorization: `Bearer ${KEYS.agent}`, 'content-type': 'application/json' },
        body: JSON.stringify({ request: { tool_id: 'Bank.Pay', input: { to: 'ann' }, call_id: 'pg-1' } }),
      })
      return await answer.text()
    }
    expect(await call()).toContain('approval')
    const page = await console_.page({ path: '/approvals', as: 'operator' })
    await page.getByRole('link', { name: /Bank\.Pay/ }).click()
    await page.getByRole('button', { name: 'Approve once' }).click()
    await page
      .getByText(/^Approved by operator/)
      .first()
      .waitFor()
    expect(await call()).toContain('done')
  })
})
