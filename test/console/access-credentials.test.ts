import type { Page } from 'playwright-core'
import { afterAll, describe, expect, it } from 'vitest'
import { CLIENT_SECRET, startAuthorizationServer } from '../oauth/authorization-server.ts'
import { checkAxe, shoot, useConsole } from './harness.ts'

const AGENT = 'a'.repeat(40)
const VIEWER = 'b'.repeat(40)
const CLERK = 'c'.repeat(40)
const oauth = await startAuthorizationServer()
afterAll(() => oauth[Symbol.asyncDispose]())

const CONFIG = `
const send = {
  [Symbol.for('collet.tool')]: true,
  id: 'SMS.Send@1.0.0',
  description: 'Sends a text message.',
  input: { type: 'object' },
  output: {},
  requirements: { secrets: [{ id: 'SMS_KEY' }] },
  run: () => 'sent',
}
const list = {
  [Symbol.for('collet.tool')]: true,
  id: 'Mail.List@1.0.0',
  description: 'Lists mail.',
  input: { type: 'object' },
  output: {},
  policy: { safetyTier: 'read' },
  requirements: { authorization: [{ id: 'mail', oauth2: { scopes: ['mail.read'] } }] },
  run: (_input, context) => 'token of ' + context.token('mail').reveal().length,
}
const read = { ...list, id: 'Drive.Read@1.0.0', requirements: { authorization: [{ id: 'google', oauth2: {} }] } }
export default {
  tools: [send, list, read],
  auth: { apiKeys: [
    { id: 'agent', key: '${AGENT}', scopes: ['admin:secrets'] },
    { id: 'viewer', key: '${VIEWER}' },
    { id: 'clerk', key: '${CLERK}', tenant: 'acme', scopes: ['admin:sources', 'admin:pins', 'admin:secrets'] },
  ] },
  oauth: { providers: { mail: { issuer: '${oauth.issuer}', clientId: 'collet', clientSecret: '${CLIENT_SECRET}', alwaysScopes: ['openid', 'offline_access'], parameters: { prompt: 'consent' } } } },
}
`

describe('Access: secrets and accounts', () => {
  const console_ = useConsole({ config: CONFIG })
  const button = (page: Page, name: string | RegExp) =>
    page.getByRole('button', typeof name === 'string' ? { name, exact: true } : { name })

  it('keeps secrets write-only: sets, replaces and removes them, and shows their owners', async () => {
    const page = await console_.page({ path: '/access?section=secrets', as: 'operator' })
    await page.getByText('Not set · SMS.Send needs it').waitFor()
    await button(page, 'Set').click()
    await page.getByLabel('For principal').fill('agent')
    await page.getByLabel('Value').fill('the very secret')
    await button(page, 'Set secret').click()
    await page.getByText('must begin with its kind').waitFor()
    await page.getByLabel('For principal').fill('key:agent')
    await checkAxe(page, 'a secret')
    await button(page, 'Set secret').click()
    await page.getByText(/^Of key:agent · set .* · cannot be read back$/).waitFor()
    expect(await page.content()).not.toContain('the very secret')
    await button(page, 'Replace').click()
    await page.getByLabel('Value').fill('another')
    await button(page, 'Set secret').click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    await button(page, 'Delete…').click()
    await page.getByLabel('Type SMS_KEY to confirm').fill('SMS_KEY')
    await button(page, 'Delete secret').click()
    await page.getByText('Not set · SMS.Send needs it').waitFor()
    await button(page, 'Secret').click()
    await button(page, 'Cancel').click()
  })

  it('names a provider that a tool needs and the config lacks, and what to write', async () => {
    const page = await console_.page({ path: '/access?section=accounts', as: 'operator' })
    const google = page.getByRole('listitem').filter({ hasText: 'google' })
    await google.getByText('Not in the config · 1 tool needs it').waitFor()
    await google.getByRole('button', { name: 'Set up…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(`${console_.url}/oauth/callback`).waitFor()
    await dialog.getByText('process.env.GOOGLE_CLIENT_SECRET').waitFor()
    await dialog.getByText('collet secrets set google --token --principal key:NAME').waitFor()
    await checkAxe(page, 'a provider to be set up')
    await button(page, 'Close').click()
    await dialog.waitFor({ state: 'detached' })
  })

  it('connects a person at a real provider, and disconnects', async () => {
    const page = await console_.page({ path: '/access?section=accounts', as: { key: AGENT } })
    const call = async (): Promise<string> => {
      const answer = await fetch(`${console_.url}/tools/call`, {
        method: 'POST',
        headers: { authorization: `Bearer ${AGENT}`, 'content-type': 'application/json' },
        body: JSON.stringify({ request: { tool_id: 'Mail.List', input: {} } }),
      })
      return await answer.text()
    }
    expect(await call()).toContain('needs authorization from mail')
    await button(page, 'Connect').click()
    await button(page, 'Make link').click()
    const popup = page.waitForEvent('popup')
    await page.getByRole('link', { name: 'Go to mail' }).click()
    const consent = await popup
    await consent.getByRole('link', { name: 'Continue to mail' }).click()
    await consent.locator('input[name=login]').fill('ann')
    await consent.locator('input[name=password]').fill('any')
    await consent.locator('button[type=submit]').click()
    await consent.getByRole('button', { name: /continue/i }).click()
    await consent.getByText('Access has been granted.').waitFor()
    await button(page, 'Close').click()
    // The page updates without a reload.
    await page.getByRole('listitem').filter({ hasText: 'key:agent' }).first().waitFor()
    expect(await call()).toContain('token of')
    await button(page, 'Disconnect…').click()
    await button(page, 'Disconnect').click()
    await page.getByText('1 tool needs it · 0 connections').waitFor()
    expect(await call()).toContain('needs authorization from mail')
  })

  it('shows a person without scopes their own accounts only, and asks for nothing that would be refused', async () => {
    const secret = { name: 'SMS_KEY', value: 'the very secret', principal: 'key:viewer' }
    const set = await console_.admin('/admin/secrets', { method: 'POST', body: JSON.stringify(secret) })
    expect(set.status).toBe(200)
    const page = await console_.page({ path: '/tools', as: { key: VIEWER } })
    const refused: string[] = []
    page.on('response', (response) => {
      if (response.status() === 403) refused.push(response.url())
    })
    await page.goto(`${console_.url}/console/access?set=SMS_KEY`)
    await page.getByText('1 tool needs it · 0 connections').waitFor()
    expect(await page.getByRole('navigation', { name: 'Sections of Access' }).count()).toBe(0)
    expect(await page.getByText('SMS_KEY').count()).toBe(0)
    for (const name of ['Create key', 'Secret', 'Set']) expect(await button(page, name).count()).toBe(0)
    await checkAxe(page, 'access without a scope')
    // People may connect only themselves.
    await button(page, 'Connect').click()
    expect(await page.getByLabel('Principal').getAttribute('readonly')).not.toBeNull()
    await button(page, 'Make link').click()
    await page.getByRole('link', { name: 'Go to mail' }).waitFor()
    expect(refused).toEqual([])

    const clerk = await console_.page({ path: '/access', as: { key: CLERK } })
    await clerk.getByText('Not set in your tenant · SMS.Send needs it').waitFor()
    const { secrets } = JSON.parse(await (await console_.admin('/admin/secrets')).text())
    await console_.admin(`/admin/secrets/${secrets[0].ref}`, { method: 'DELETE' })
  })

  it('opens the dialogs that the page of a tool links to', async () => {
    const page = await console_.page({ path: '/tools/SMS.Send', as: { key: AGENT } })
    await page.getByRole('link', { name: 'Set secret' }).click()
    const dialog = page.getByRole('dialog')
    expect(await dialog.getByLabel('Name').inputValue()).toBe('SMS_KEY')
    expect(await dialog.getByLabel('For principal').inputValue()).toBe('key:agent')
    await button(page, 'Cancel').click()
    await page.waitForURL('**/console/access**')
    const operator = await console_.page({ path: '/tools/Mail.List', as: 'operator' })
    await operator.getByRole('link', { name: 'Connect', exact: true }).click()
    await operator.getByRole('heading', { name: 'Connect mail' }).waitFor()
    await button(operator, 'Cancel').click()
    await operator.waitForURL('**/console/access**')
  })

  it('has secrets and accounts on a phone', async () => {
    for (const section of ['secrets', 'accounts']) {
      const path = `/access?section=${section}`
      const page = await console_.page({ path, as: 'operator', width: 390, height: 844 })
      await page
        .getByText(/needs it/)
        .first()
        .waitFor()
      await checkAxe(page, `${section} on a phone`)
      await shoot(page, `access-${section}-390`)
    }
  })
})

describe('Access on PostgreSQL: secrets', () => {
  const console_ = useConsole({ config: CONFIG, engine: 'postgres' })

  it('keeps a secret, and removes it', async () => {
    const page = await console_.page({ path: '/access?section=secrets', as: 'operator' })
    await page.getByRole('button', { name: 'Set', exact: true }).click()
    await page.getByLabel('For principal').fill('key:agent')
    await page.getByLabel('Value').fill('the very secret')
    await page.getByRole('button', { name: 'Set secret' }).click()
    await page.getByRole('button', { name: 'Delete…' }).click()
    await page.getByLabel('Type SMS_KEY to confirm').fill('SMS_KEY')
    await page.getByRole('button', { name: 'Delete secret' }).click()
    await page.getByText('Not set · SMS.Send needs it').waitFor()
  })
})
