import { describe, expect, it } from 'vitest'
import { CONFIG, call, detail, echo, rowOf, rows, VIEWER, WATCHER } from './calls-fixture.ts'
import { checkAxe, shoot, useConsole } from './harness.ts'

const EVIL = '<img src=x onerror="window.hacked = true"><script>window.hacked = true</script>'

describe('one call', () => {
  const collet = useConsole({ config: CONFIG })

  it('shows input and output on request, as plain text', async () => {
    await call(collet, 'Gmail.GetEmails', EVIL, { text: EVIL })
    const page = await collet.page({ path: '/calls?q=tool:Gmail.*', as: { key: WATCHER } })
    await rows(page).first().click()
    await detail(page).getByRole('tab', { name: 'Input and output' }).click()
    await detail(page).getByText('Viewing is recorded in the journal').waitFor()
    expect(await detail(page).textContent()).not.toContain('"text"')
    await detail(page).getByRole('button', { name: 'Show input and output' }).click()
    await detail(page).getByRole('region', { name: 'Output' }).waitFor()
    expect(await detail(page).getByRole('region', { name: 'Input' }).textContent()).toContain('<img src=x')
    expect(await detail(page).getByRole('region', { name: 'Output' }).textContent()).toContain('<script>')
    await detail(page).getByRole('link', { name: 'Open page' }).click()
    await page.getByRole('heading', { name: 'Timeline' }).waitFor()
    expect(await page.getByText('onerror').count()).toBeGreaterThan(0)
    expect(await page.evaluate('window.hacked')).toBe(undefined)
    const tryIt = page.getByRole('button', { name: 'Run again…' })
    await tryIt.click()
    await page.waitForURL('**/console/tools/Gmail.GetEmails?**')
    // The input is passed to the page, but is neither in the address nor in the history.
    const json = page.getByRole('textbox', { name: 'Input as JSON' })
    expect(JSON.parse(await json.innerText())).toEqual({ text: EVIL })
    expect(`${page.url()} ${await page.evaluate('JSON.stringify(history.state)')}`).not.toContain('onerror')
    expect(await page.evaluate('window.hacked')).toBe(undefined)
  })

  it('shows no contents to people who may only see what happened', async () => {
    await call(collet, 'Gmail.GetEmails', 'hidden-1')
    const page = await collet.page({ path: '/calls', as: { key: VIEWER } })
    await rows(page).first().click()
    await detail(page).getByRole('tab', { name: 'Input and output' }).click()
    await detail(page).getByText('calls:read').waitFor()
    expect(await page.getByRole('button', { name: 'Show input and output' }).count()).toBe(0)
  })

  it('links to the approval it waits for and to the named steps of a workflow, and marks what was replayed', async () => {
    await call(collet, 'Orders.Ship', 'ship-1')
    const page = await collet.page({ path: '/calls?q=tool:Bank.*+status:parked', as: { key: WATCHER } })
    await rowOf(page, 'Bank.Pay').first().click()
    await detail(page).getByRole('link', { name: 'Open page' }).click()
    await page.getByText('Step of').waitFor()
    await page.getByRole('link', { name: 'Open the approval' }).click()
    await page.getByRole('button', { name: 'Approve once' }).click()
    await page.getByText(/^Approved by key:watcher/).waitFor()
    expect(await call(collet, 'Orders.Ship', 'ship-1')).toMatchObject({ result: { success: true } })
    await page.goto(`${collet.url}/console/calls?q=tool:Orders.Ship`)
    await rowOf(page, 'Orders.Ship').click()
    await detail(page).getByRole('link', { name: 'Open page' }).click()
    const story = page.getByRole('list', { name: 'What happened' })
    await story.getByText('1 step replayed').waitFor()
    const waited = page.getByRole('list', { name: 'What Bank.Pay@2.0.0 waited for' })
    await waited.getByText('Approved', { exact: true }).waitFor()
    await checkAxe(page, 'a workflow')
    await shoot(page, 'call-workflow')
    await story.getByRole('link', { name: 'stripe.charges_retrieve is it paid?' }).click()
    await page.getByText('Orders.Ship, as is it paid?').waitFor()
  })

  it('is settled by a person, and the page changes only after the answer of the server', async () => {
    await call(collet, 'Gmail.SendEmail', 'credit-note-4121', { to: 'billing@northwind.example' })
    await collet.server.ended
    await collet.restart()
    const page = await collet.page({ path: '/calls?q=status:ambiguous', as: { key: WATCHER } })
    await rowOf(page, 'Gmail.SendEmail').click()
    await detail(page).getByRole('link', { name: 'Settle on its page' }).click()
    await page.getByText('Outcome unknown').waitFor()
    await page.getByRole('list', { name: 'What happened' }).getByText('Ambiguous').waitFor()
    await checkAxe(page, 'an ambiguous call')
    await shoot(page, 'call')
    await page.getByRole('button', { name: 'Settle…' }).click()
    await page.getByText('Choose an outcome.').waitFor()
    await page.getByText('Enter a reason.').waitFor()
    await page.getByLabel('It succeeded').check()
    await page.getByRole('textbox', { name: 'Value' }).fill('{"id": ')
    await page.getByRole('textbox', { name: 'Reason' }).fill("Found in Dana's Sent, 12:06:52")
    await page.getByRole('button', { name: 'Settle as succeeded…' }).click()
    await page.getByText('Not valid JSON.').waitFor()
    await page.getByRole('textbox', { name: 'Value' }).fill('{"id": "m-1"}')
    expect(await echo(page).textContent()).toMatch(
      /^collet calls settle \S+ --as succeeded --value '\{"id": "m-1"\}' --why 'Found in Dana'\\''s Sent, 12:06:52'$/,
    )
    await page.getByRole('button', { name: 'Settle as succeeded…' }).click()
    const dialog = page.getByRole('dialog', { name: 'Settle as succeeded?' })
    await checkAxe(page, 'settling')
    await dialog.getByRole('button', { name: 'Go back' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Settle as succeeded…' }).click()
    await dialog.getByRole('button', { name: 'Settle as succeeded' }).click()
    await page.getByText('Settled as succeeded by key:watcher').waitFor()
    await page.getByText(/^“Found in Dana's Sent/).waitFor()
    expect(collet.sent(page, /\/settle$/).map(({ body }) => body)).toEqual([
      { as: 'succeeded', why: "Found in Dana's Sent, 12:06:52", value: { id: 'm-1' } },
    ])
    expect(await page.getByRole('heading', { name: 'Settle this call' }).count()).toBe(0)
    expect(
      await call(collet, 'Gmail.SendEmail', 'credit-note-4121', { to: 'billing@northwind.example' }),
    ).toMatchObject({
      result: { success: true, value: { id: 'm-1' } },
    })
  })

  it.each([
    ['It succeeded', 'succeeded', { as: 'succeeded' }],
    ['It failed', 'failed', { as: 'failed' }],
  ] as const)('settled as "%s" without a value shows who, when and why', async (label, state, body) => {
    const id = `settle-${state}`
    await call(collet, 'Gmail.SendEmail', id, { to: id })
    await collet.server.ended
    await collet.restart()
    const page = await collet.page({ path: '/calls?q=status:ambiguous', as: { key: WATCHER } })
    await rowOf(page, 'Gmail.SendEmail').click()
    await detail(page).getByRole('link', { name: 'Settle on its page' }).click()
    // A value that was typed before another ending was chosen is not sent.
    await page.getByLabel('It succeeded').check()
    await page.getByRole('textbox', { name: 'Value' }).fill(state === 'failed' ? '{"id": "m-2"}' : '')
    await page.getByLabel(label).check()
    await page.getByRole('textbox', { name: 'Reason' }).fill(`I looked for ${id}.`)
    await page.getByRole('button', { name: `Settle as ${state}…` }).click()
    await page
      .getByRole('dialog')
      .getByRole('button', { name: `Settle as ${state}` })
      .click()
    const story = page.getByRole('list', { name: 'What happened' })
    for (const look of ['at once', 'after a reload']) {
      await story.getByText(`Settled as ${state} by key:watcher`).waitFor()
      expect(await story.textContent(), look).toMatch(new RegExp(`Ambiguous.*“I looked for ${id}\\.”`, 's'))
      await page.reload()
    }
    expect(collet.sent(page, /\/settle$/).map((request) => request.body)).toEqual([
      { ...body, why: `I looked for ${id}.` },
    ])
    const record = new URL(page.url()).pathname.split('/').at(-1) ?? ''
    const shown = await collet.command('calls', 'show', record, '--url', collet.url)
    expect(shown).toMatch(new RegExp(`call\\.settled as=${state} who=key:watcher why=I looked for ${id}\\.`))
    expect(shown).not.toContain('There is no outcome yet')
    // The time until a person settled it is not the time the tool ran.
    expect(shown).toMatch(/^took .* until it was settled; its run time is unknown$/m)
    await page.goto(`${collet.url}/console/calls?q=tool:Gmail.SendEmail`)
    const row = page.locator(`tr[data-record="${record}"]`)
    expect(await row.locator('.m-dur').innerText()).toBe('—')
  })
})
