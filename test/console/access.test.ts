import { describe, expect, it } from 'vitest'
import { checkAxe, shoot, useConsole } from './harness.ts'
import {
  CONFIG,
  callAs,
  clipboard,
  dialog,
  echo,
  FAR_KEY,
  HOSTILE,
  part,
  ROOT_KEY,
} from './settings-fixture.ts'

const collet = useConsole({ config: CONFIG })

describe('Access: keys', () => {
  it('creates a key that works, shows it once, and shows the command', async () => {
    const page = await collet.page({ path: '/access', as: 'operator' })
    // Those of the config are listed, and can only be changed there.
    const configuredKeys = { root: 'everything', clerk: 'mail:send', 'far tenant acme': 'audit:read' }
    for (const [name, right] of Object.entries(configuredKeys)) {
      const configured = part(page, 'Keys').getByRole('row', { name: new RegExp(`^${name} in the config`) })
      await configured.getByText(right).waitFor()
      expect(await configured.getByRole('button').count()).toBe(0)
    }
    await expect.poll(() => echo(page)).toBe('collet keys list')
    await page.getByRole('button', { name: 'Create key' }).click()
    await expect.poll(() => echo(page)).toBe('collet keys create NAME --expires 90d')
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByText('Enter a name').waitFor()
    await dialog(page).getByLabel('Name').fill('support-bot')
    await dialog(page).getByLabel('Scopes').fill('mail:send, crm:*')
    await dialog(page).getByLabel('Roles').fill('writter')
    await dialog(page).getByRole('checkbox', { name: 'mail' }).check()
    await dialog(page).getByLabel('Label').fill(HOSTILE)
    await dialog(page).getByLabel('Expires').selectOption('30')
    await expect
      .poll(() => echo(page))
      .toBe(
        `collet keys create support-bot --scope mail:send --scope 'crm:*' --role writter --toolset mail --label '${HOSTILE}' --expires 30d`,
      )
    await checkAxe(page, 'the form of a key')
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByText('Did you mean "writer"?').waitFor()
    await dialog(page).getByLabel('Roles').fill('writer')
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByText('it is shown only once').waitFor()
    await dialog(page).getByText('No tool or route here needs the scope "crm:*"').waitFor()
    await dialog(page).getByRole('button', { name: 'Copy key' }).click()
    const key = String(await clipboard(page))
    expect(await callAs(key, collet)).toBe(200)
    await dialog(page).getByRole('button', { name: 'I have copied it' }).click()
    await dialog(page).waitFor({ state: 'detached' })
    const row = page.getByRole('row', { name: /support-bot/ })
    await row.getByText('toolset mail').waitFor()
    await row.getByText(HOSTILE).waitFor()
    expect(await page.title()).toBe('Access · Collet')
    expect(await page.content()).not.toContain(key)
    await checkAxe(page, 'Access')
  })

  it('adds tools from the catalog, and shows what the key will see and what it lacks', async () => {
    const page = await collet.page({ path: '/access', as: 'operator' })
    await page.getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByLabel('Name').fill('picker')
    await dialog(page).getByLabel('Find tools to add').fill('send')
    await dialog(page).getByRole('checkbox', { name: 'Mail.Send: pure, approval never' }).check()
    await dialog(page).getByText('This key will see 0 tools.').waitFor()
    await dialog(page).getByText('Mail.Send needs the scope mail:send.').waitFor()
    await checkAxe(page, 'the tools of a key')
    await dialog(page).getByRole('button', { name: 'Add mail:send' }).click()
    await dialog(page).getByText('This key will see 1 tool.').waitFor()
    await expect
      .poll(() => echo(page))
      .toBe('collet keys create picker --scope mail:send --tool openwop:Mail.Send --expires 90d')
    await dialog(page).getByRole('button', { name: 'Cancel' }).click()
  })

  it('rotates a key with an overlap, and revokes by its typed name', async () => {
    const page = await collet.page({ path: '/access', as: { key: ROOT_KEY } })
    await page.getByRole('button', { name: 'Rotate support-bot' }).click()
    await dialog(page).getByLabel('Expiry of its other keys').selectOption('0')
    await dialog(page).getByRole('button', { name: 'Rotate key' }).click()
    await dialog(page).getByRole('button', { name: 'Copy key' }).click()
    const key = String(await clipboard(page))
    await dialog(page).getByRole('button', { name: 'I have copied it' }).click()
    expect(await callAs(key, collet)).toBe(200)
    await page.getByRole('button', { name: 'Show 1 ended key' }).click()
    await page.getByRole('button', { name: 'Hide ended keys' }).click()

    await page.getByRole('button', { name: /^Revoke / }).click()
    await checkAxe(page, 'the question before a key is revoked')
    await dialog(page).getByRole('button', { name: 'Keep it' }).click()
    await page.getByRole('button', { name: /^Revoke / }).click()
    await dialog(page).getByText('Calls with it are rejected within a second').waitFor()
    const revoke = dialog(page).getByRole('button', { name: 'Revoke key' })
    expect(await revoke.getAttribute('aria-disabled')).toBe('true')
    await dialog(page)
      .getByLabel(/Type support-bot/)
      .fill('support-bot')
    await revoke.click()
    await dialog(page).waitFor({ state: 'detached' })
    await expect.poll(() => callAs(key, collet), { timeout: 5_000 }).toBe(401)
    await part(page, 'Keys')
      .getByRole('row', { name: /support-bot/ })
      .waitFor({ state: 'detached' })
  })

  it('ends a principal permanently', async () => {
    const page = await collet.page({ path: '/access', as: 'operator' })
    await page.getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByLabel('Name').fill('short-lived')
    await dialog(page).getByLabel('Tenant').fill('acme')
    await dialog(page).getByLabel('Only these tools').fill('Mail.*')
    await dialog(page).getByLabel('Expires').selectOption('')
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByRole('button', { name: 'I have copied it' }).click()
    await page.getByRole('row', { name: /short-lived tenant acme/ }).waitFor()
    await page.getByRole('button', { name: /^Revoke / }).click()
    await dialog(page)
      .getByRole('radio', { name: /The principal, with all its keys/ })
      .check()
    await dialog(page)
      .getByLabel(/Type short-lived/)
      .fill('short-lived')
    await dialog(page).getByRole('button', { name: 'End principal' }).click()
    await dialog(page).waitFor({ state: 'detached' })
    await page.getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByLabel('Name').fill('short-lived')
    await dialog(page).getByLabel('Tenant').fill('acme')
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByText('names are never used again').waitFor()
    await dialog(page).getByRole('button', { name: 'Cancel' }).click()
  })

  it('keeps the typed values when the session ends', async () => {
    const page = await collet.page({ path: '/access', as: { key: ROOT_KEY } })
    await page.getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByLabel('Name').fill('kept-name')
    await page.context().clearCookies()
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    const again = page.getByRole('dialog', { name: 'Your session has ended' })
    await again.getByLabel('API key').fill(ROOT_KEY)
    await again.getByRole('button', { name: 'Sign in with the key' }).click()
    await again.waitFor({ state: 'detached' })
    expect(await dialog(page).getByLabel('Name').inputValue()).toBe('kept-name')
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByRole('button', { name: 'I have copied it' }).click()
    await page.getByRole('row', { name: /kept-name/ }).waitFor()
  })

  it('shows keys to a person who manages those of one tenant', async () => {
    const page = await collet.page({ path: '/access', as: { key: FAR_KEY } })
    await part(page, 'Keys').getByRole('button', { name: 'Create key' }).waitFor()
    const sections = page.getByRole('navigation', { name: 'Sections of Access' })
    expect(await sections.getByRole('button').allTextContents()).toEqual([
      'Keys',
      'Toolsets',
      'OAuth accounts',
    ])
  })
})

describe('Access: toolsets', () => {
  it('shows what each selects, who has it, and its command', async () => {
    const page = await collet.page({ path: '/access', as: 'operator' })
    await page.getByRole('button', { name: 'Toolsets' }).click()
    await page.waitForURL('**/console/access?section=toolsets')
    const mail = page.getByRole('listitem').filter({ has: page.getByRole('heading', { name: 'mail' }) })
    await mail.getByText('Mail.*').waitFor()
    await mail.getByText('1 tool', { exact: true }).waitFor()
    await mail.getByText('Selected tools').click()
    await expect.poll(() => echo(page)).toBe('collet tools --toolset mail')
    await checkAxe(page, 'toolsets')
    await shoot(page, 'access-toolsets')
    await mail.getByRole('link', { name: 'Mail.Send' }).click()
    await page.waitForURL('**/console/tools/Mail.Send')
  })
})

describe('Access on a phone', () => {
  it('fits', async () => {
    const page = await collet.page({ path: '/access', as: 'operator', width: 390, height: 844 })
    await page.getByRole('button', { name: 'Rotate kept-name' }).waitFor()
    await checkAxe(page, 'Access on a phone')
    await shoot(page, 'access-390')
    const wide = await collet.page({ path: '/access', as: 'operator' })
    await wide.getByRole('row', { name: /kept-name/ }).waitFor()
    await shoot(wide, 'access')
  })
})
