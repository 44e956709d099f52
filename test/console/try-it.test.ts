import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { CLIENT_SECRET, startAuthorizationServer } from '../oauth/authorization-server.ts'
import { checkAxe, shoot, useConsole } from './harness.ts'
import { form, input, OPEN, outputOf, result, runButton, TOOLS } from './tool-fixture.ts'

const run = promisify(execFile)

describe('a real call', () => {
  const collet = useConsole({ config: OPEN })
  const open = (tool: string, options = {}) => collet.page({ path: `/tools/${tool}`, ...options })

  it('shows the exchange without the browser’s session, and a working snippet', async () => {
    const page = await open('Gmail.GetEmails', { as: 'operator' })
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    await result(page)
      .getByRole('img', { name: /^Time:/ })
      .waitFor()
    await result(page).getByRole('button', { name: 'Request' }).click()
    const request = await result(page).getByRole('region', { name: 'Request' }).textContent()
    expect(request).toContain('POST /tools/call')
    expect(request).not.toMatch(/cookie|csrf/i)
    await result(page).getByRole('button', { name: 'Headers' }).click()
    const headers = await result(page).getByRole('region', { name: 'Headers' }).textContent()
    expect(headers).toMatch(/collet-call-id: [0-9a-f-]{36}/)
    expect(headers).not.toMatch(/set-cookie|csrf/i)

    const copied = page.getByRole('region', { name: 'Copy as' })
    const texts: Record<string, string> = {}
    for (const language of ['TypeScript', 'Python', 'curl'])
      for (const protocol of ['OpenTool', 'openwop', 'MCP', 'OTC']) {
        await copied.getByRole('button', { name: language, exact: true }).click()
        await copied.getByRole('button', { name: protocol, exact: true }).click()
        const shown = copied.getByRole('region', { name: `The call as ${language} over ${protocol}` })
        texts[`${language} ${protocol}`] = (await shown.textContent()) ?? ''
      }
    for (const text of Object.values(texts)) expect(text).not.toMatch(/cookie|csrf/i)
    expect(texts['TypeScript OTC']).toContain("from 'collet/client'")
    expect(texts['Python MCP']).toContain('ClientSession')
    for (const protocol of ['OTC', 'OpenTool', 'openwop', 'MCP']) {
      const { stdout } = await run('sh', ['-c', texts[`curl ${protocol}`] ?? ''])
      expect(stdout, `curl over ${protocol}`).toContain('193f0c7a8b1e44d0')
    }
    await copied.getByRole('button', { name: /^Copy/ }).click()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(texts['curl OTC'])
  })

  it('becomes a test of the tool, which passes', async () => {
    const page = await open('Gmail.GetEmails')
    await form(page)
    await runButton(page).click()
    await result(page).getByRole('button', { name: 'Test' }).click()
    const shown = result(page).getByRole('region', { name: 'The call as a test' })
    const good = (await shown.textContent()) ?? ''
    await checkAxe(page, 'a call as a test')
    await input(page).fill('{"max_results": 0}')
    await runButton(page).click()
    await result(page).getByText('Refused').waitFor()
    await result(page).getByRole('button', { name: 'Test' }).click()
    const refused = (await shown.textContent()) ?? ''
    writeFileSync(
      join(collet.folder, 'tools.ts'),
      `import config from './collet.config.mjs'
export const getEmailsTool = config.tools.find(({ id }) => id === 'Gmail.GetEmails@1.2.0')`,
    )
    const library = pathToFileURL(join(import.meta.dirname, '../../dist/testing/index.js')).href
    const passes = async (text: string): Promise<boolean> => {
      const file = join(collet.folder, 'copied.test.mjs')
      writeFileSync(file, text.replace("'collet/testing'", `'${library}'`))
      return await run(process.execPath, [file]).then(
        ({ stdout }) => stdout.includes('pass 1'),
        () => false,
      )
    }
    expect(await passes(good), good).toBe(true)
    expect(await passes(good.replace('193f0c7a8b1e44d0', 'another')), 'another outcome').toBe(false)
    expect(refused).toContain('!result.ok')
    expect(await passes(refused), refused).toBe(true)
    const imported = await open('github.create_issue')
    await imported.getByRole('button', { name: 'Run for real' }).click()
    await result(imported).getByRole('button', { name: 'Headers' }).waitFor()
    expect(await result(imported).getByRole('button', { name: 'Test' }).count()).toBe(0)
  })

  it('shows the errors of the server beside the fields', async () => {
    const page = await open('Bank.Pay')
    await form(page)
    await input(page).fill('{"amount": "much", "to": {}}')
    await runButton(page).click()
    await result(page).getByText('Refused').waitFor()
    await result(page).getByText('Nothing ran. Invalid fields are marked in the form.').waitFor()
    await page.getByRole('alert').getByText('Must be a number').waitFor()
    await page.getByRole('group', { name: 'to' }).getByRole('alert').getByText('Required').waitFor()
    await checkAxe(page, 'a refused input')
  })

  it('waits for approval, and continues once it is granted', async () => {
    const page = await open('Bank.Pay')
    await form(page)
    await input(page).fill('{"amount": 5}')
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('Waiting for approval').waitFor()
    await checkAxe(page, 'a call that waits')
    await shoot(page, 'tool-parked')
    const link = result(page).getByRole('link', { name: 'Open the approval' })
    const id = ((await link.getAttribute('href')) ?? '').split('/').at(-1) ?? ''
    const approver = await collet.page({ path: `/approvals/${id}`, as: 'operator' })
    await approver.getByRole('button', { name: 'Approve once' }).click()
    await result(page).getByText('Succeeded').waitFor()
    expect(await outputOf(page)).toEqual({ paid: 5 })
    await result(page)
      .getByText(/^waited for approval [\d.]+ (ms|s)$/)
      .waitFor()

    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('Waiting for approval').waitFor()
    await result(page).getByRole('button', { name: 'Withdraw call…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Withdraw call' }).click()
    await result(page).getByText('You withdrew the call.').waitFor()
    const pending = await collet.admin('/admin/approvals?state=pending')
    expect(await pending.json()).toMatchObject({ approvals: [] })
  })

  it('shows the progress of a tool, and stops it', async () => {
    const page = await open('Slow.Count')
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page)
      .getByText(/^Counted/)
      .waitFor()
    await result(page).getByRole('progressbar').waitFor()
    await checkAxe(page, 'a call that runs')
    await result(page).getByRole('button', { name: 'Stop' }).click()
    await result(page).getByText('Cancelled', { exact: true }).waitFor()
    expect(await result(page).getByText('You stopped this call.').count()).toBe(1)
    expect(await result(page).locator('.note').count()).toBe(0)
    expect(await result(page).getByText('Failed', { exact: true }).count()).toBe(0)
  })

  it('shows what failed and what to do', async () => {
    const page = await open('Bad.Luck')
    await runButton(page).click()
    await result(page).getByText('Failed', { exact: true }).waitFor()
    expect(await result(page).textContent()).not.toContain('a detail for the log')
    // It only reads.
    expect(await result(page).textContent()).not.toContain('may have run')
    const needy = await open('Needs.All')
    await needy.getByText('google account').waitFor()
    await needy.getByText('Secret API_KEY').waitFor()
    // There are no keys here: the caller is the person at this machine, who has a vault.
    await needy.getByText('This server has no sign-in service for google.').first().waitFor()
    await runButton(needy).click()
    await result(needy)
      .getByText(/Waiting for access|Refused/)
      .waitFor()
    await checkAxe(needy, 'a tool that lacks something')
  })

  it('cuts long values, and shows images but nothing that could run', async () => {
    const big = await open('Big.Text')
    await runButton(big).click()
    const output = result(big).getByRole('region', { name: 'Output' })
    await output.waitFor()
    expect(await output.textContent()).not.toContain('the very end')
    await result(big).getByRole('button', { name: 'Show all' }).click()
    await output.evaluate((box) => box.scrollTo(0, box.scrollHeight))
    await output.getByText('the very end').waitFor()

    const art = await open('Art.Draw')
    await runButton(art).click()
    const blocks = art.getByRole('list', { name: 'Content' })
    await blocks.getByRole('img').waitFor()
    expect(await blocks.getByRole('img').count()).toBe(1)
    expect(await blocks.locator('a[href^="javascript"]').count()).toBe(0)
    expect(await blocks.getByRole('link', { name: 'Save file' }).count()).toBe(2)
    expect(await art.title()).not.toContain('owned')
    await checkAxe(art, 'content')
    await shoot(art, 'tool-content')
  })

  it('shows untrusted content as text', async () => {
    const page = await open('Evil.Words')
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    for (const view of ['JSON Schema', 'Model']) await page.getByRole('button', { name: view }).click()
    expect(await page.locator('img').count()).toBe(0)
    expect(await page.locator('main script').count()).toBe(0)
    expect(await page.title()).not.toBe('owned')
  })

  it('fits a phone', async () => {
    const page = await open('Gmail.GetEmails', { width: 390, height: 844 })
    await page.getByRole('link', { name: 'Try it' }).click()
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    await page.getByLabel('Version').waitFor()
    await checkAxe(page, 'a tool on a phone')
    await shoot(page, 'tool-390')
  })
})

const KEY = 'a-key-that-is-long-enough-for-a-test'

const oauth = await startAuthorizationServer()
const GOOGLE = `{ issuer: '${oauth.issuer}', clientId: 'collet', clientSecret: '${CLIENT_SECRET}', alwaysScopes: ['openid', 'offline_access'], parameters: { prompt: 'consent' } }`

describe('a server that requires credentials', () => {
  afterAll(() => oauth[Symbol.asyncDispose]())
  const collet = useConsole({
    engine: 'postgres',
    config: `${TOOLS}
export default { tools: TOOLS, authoring: { describeParameters: false }, oauth: { providers: { google: ${GOOGLE} } }, auth: { apiKeys: [{ id: 'ann', key: '${KEY}' }] } }`,
  })

  it('calls as the signed-in person, and copies a placeholder for the key', async () => {
    const page = await collet.page({ path: '/tools/Gmail.GetEmails', as: { key: KEY } })
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    await result(page).getByRole('button', { name: 'Request' }).click()
    await result(page).getByText('authorization: Bearer <your API key>').waitFor()
    const text = (await page.getByRole('region', { name: 'The call as curl over OTC' }).textContent()) ?? ''
    expect(text).toContain('$COLLET_API_KEY')
    expect(await page.content()).not.toContain(KEY)
    const { stdout } = await run('sh', ['-c', text], { env: { ...process.env, COLLET_API_KEY: KEY } })
    expect(stdout).toContain('193f0c7a8b1e44d0')
    await page.getByRole('link', { name: 'Tools' }).first().waitFor()
  })

  it('shows which credential a call uses', async () => {
    const page = await collet.page({ path: '/tools/Needs.Secret', as: { key: KEY } })
    await page.getByText('not stored for key:ann yet.').waitFor()
    // People without the scope can pass the command on.
    await page.getByRole('button', { name: 'Copy command that sets API_KEY' }).waitFor()
    expect(await page.getByRole('link', { name: 'Set secret' }).count()).toBe(0)
    const secret = { name: 'API_KEY', value: 'twelve chars', principal: 'key:ann' }
    const set = await collet.admin('/admin/secrets', { method: 'POST', body: JSON.stringify(secret) })
    expect(set.status, await set.text()).toBe(200)
    await page.reload()
    await page.getByText('stored for key:ann.').waitFor()
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    expect(await outputOf(page)).toBe(12)
  })

  it('links to the provider, and continues once access is granted', async () => {
    const page = await collet.page({ path: '/tools/Needs.Access', as: { key: KEY } })
    await page.getByText('not stored for key:ann yet.').waitFor()
    await runButton(page).click()
    await result(page).getByText('Waiting for access').waitFor()
    const popup = page.waitForEvent('popup')
    await result(page).getByRole('link', { name: 'Connect google' }).click()
    const consent = await popup
    await consent.getByRole('link', { name: 'Continue to google' }).click()
    await consent.locator('input[name=login]').fill('ann')
    await consent.locator('input[name=password]').fill('any')
    await consent.locator('button[type=submit]').click()
    await consent.getByRole('button', { name: /continue/i }).click()
    await consent.getByText('Access has been granted.').waitFor()
    await result(page).getByText('Succeeded').waitFor()
    await page.reload()
    await page.getByText('mail.read · in the vault').waitFor()
    await page.getByRole('button', { name: 'Connect another' }).click()
    const link = page.getByRole('link', { name: 'Go to google' })
    expect(await link.getAttribute('href')).toContain(`${collet.url}/challenges/`)
    // Not the scopes that other tools need.
    expect(collet.sent(page, /\/connect$/)).toEqual([
      { method: 'POST', path: '/admin/providers/google/connect', body: { scopes: ['mail.read'] } },
    ])
    await checkAxe(page, 'an account to connect')
  })

  it('counts the calls of a tool on its page', async () => {
    const page = await collet.page({ path: '/tools/Gmail.GetEmails', as: 'operator' })
    await page
      .getByRole('img', { name: /^[1-9]\d* calls, \d+ errors/ })
      .first()
      .waitFor()
  })

  it('the operator runs a tool as a caller, and the call shows both names', async () => {
    const page = await collet.page({ path: '/tools/Gmail.GetEmails', as: 'operator' })
    await form(page)
    await page.getByText('Its stored credentials are not used.').waitFor()
    await page.getByLabel('Run as').selectOption({ label: 'key:ann' })
    const sent = page.waitForRequest((request) => request.url().endsWith('/tools/call'))
    await runButton(page).click()
    expect((await sent).headers()['collet-run-as']).toBe('default/key%3Aann')
    await result(page).getByText('Succeeded').waitFor()
    await page.goto(`${collet.url}/console/calls`)
    await page.getByText('operator, as key:ann').first().waitFor()
    const newest: unknown = await (await collet.admin('/admin/calls?limit=1')).json()
    expect(newest).toMatchObject({ calls: [{ principal: 'key:ann', by: 'operator' }] })
  })

  it('the operator stops and withdraws a call as the caller in whose tenant it runs', async () => {
    const make = async (principal: string): Promise<string> => {
      const body = JSON.stringify({ principal, tenant: 'acme' })
      const made = await collet.admin('/admin/keys', { method: 'POST', body })
      return /"key_id":"([\w-]+)"/.exec(await made.text())?.[1] ?? ''
    }
    await make('ben')
    await collet.admin(`/admin/keys/${await make('gone')}`, { method: 'DELETE' })
    const page = await collet.page({ path: '/tools/Slow.Count', as: 'operator' })
    const runAsBen = async (): Promise<void> => {
      await page.getByLabel('Run as').selectOption({ label: 'key:ben (tenant acme)' })
      await page.getByRole('button', { name: 'Run for real' }).click()
    }
    await runAsBen()
    expect(await page.getByLabel('Run as').locator('option').allTextContents()).not.toContain(
      'key:gone (tenant acme)',
    )
    await result(page)
      .getByText(/^Counted/)
      .waitFor()
    await result(page).getByRole('button', { name: 'Stop' }).click()
    await result(page).getByText('You stopped this call.').waitFor()
    await page.goto(`${collet.url}/console/tools/Bank.Pay`)
    await form(page)
    await input(page).fill('{"amount": 5}')
    await runAsBen()
    await result(page).getByText('Waiting for approval').waitFor()
    await result(page).getByRole('button', { name: 'Withdraw call…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Withdraw call' }).click()
    await result(page).getByText('You withdrew the call.').waitFor()
    const newest: unknown = await (await collet.admin('/admin/calls?limit=2')).json()
    const common = { tenant: 'acme', principal: 'key:ben', by: 'operator' }
    expect(newest).toMatchObject({
      calls: [
        { ...common, tool: 'Bank.Pay@1.0.0' },
        { ...common, tool: 'Slow.Count@1.0.0' },
      ],
    })
  })

  it('asks the operator for the caller before a tool runs, and lets them sign in with a key', async () => {
    const page = await collet.page({ path: '/tools/Gmail.GetEmails', as: 'operator' })
    await form(page)
    await page.getByLabel('Run as').waitFor()
    expect(await runButton(page).getAttribute('aria-disabled')).toBe('true')
    await page.keyboard.press('Control+Enter')
    await result(page).getByText('Run the tool to see its result.').waitFor()
    await checkAxe(page, 'a tool for who may not call it')
    await page.getByRole('button', { name: 'Sign in with a key' }).click()
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Sign in with a key' }).click()
    await page.getByRole('dialog').getByLabel('API key').fill(KEY)
    await page.getByRole('button', { name: 'Sign in with the key' }).click()
    await page.getByLabel('Run as').waitFor({ state: 'detached' })
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
  })
})
