import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { checkAxe, shoot, useConsole } from './harness.ts'
import {
  CLERK_KEY,
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

describe('Settings: keys', () => {
  it('makes a key that works, shows it once, and names the command', async () => {
    const page = await collet.page({ path: '/settings', as: 'operator' })
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
    expect(await page.title()).toBe('Settings · Collet')
    expect(await page.content()).not.toContain(key)
    await checkAxe(page, 'Settings')
  })

  it('picks tools from the catalog, and says what the key will see and what it lacks', async () => {
    const page = await collet.page({ path: '/settings', as: 'operator' })
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
    const page = await collet.page({ path: '/settings', as: { key: ROOT_KEY } })
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

  it('ends a principal for good', async () => {
    const page = await collet.page({ path: '/settings', as: 'operator' })
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
})

describe('Settings: use, limits, refusals', () => {
  it('shows who used how much, and what is left, in amber when it is nearly nothing', async () => {
    for (let nth = 0; nth < 9; nth += 1) expect(await callAs(ROOT_KEY, collet)).toBe(200)
    const page = await collet.page({ path: '/settings', as: 'operator' })
    const limits = part(page, 'Limits and budgets')
    await limits.getByText('Concurrent calls').waitFor()
    await limits.getByText('Calls in 1 d, root').waitFor()
    await limits.getByText(/^Servers reserve parts of a budget in advance/).waitFor()
    expect(await limits.locator('.meter.warn').count()).toBe(1)
    await page.getByRole('button', { name: 'Usage', exact: true }).click()
    const use = part(page, 'Usage by caller')
    await use.getByRole('row', { name: /root/ }).getByText('9', { exact: true }).first().waitFor()
    await expect.poll(() => echo(page)).toBe('collet usage --since 24h')
    await use.getByRole('button', { name: '7 days' }).click()
    await expect.poll(() => echo(page)).toBe('collet usage --since 7d')
    await use.getByRole('button', { name: '30 days' }).click()
    await use.getByRole('button', { name: '24 hours' }).click()
    await use.getByRole('link', { name: 'root' }).click()
    await page.waitForURL('**/console/calls?q=principal*')
  })

  it('shows who was refused what', async () => {
    const headers = { authorization: `Bearer ${CLERK_KEY}` }
    expect((await fetch(`${collet.url}/admin/keys`, { headers })).status).toBe(403)
    const page = await collet.page({ path: '/settings', as: 'operator' })
    await page.getByRole('button', { name: 'Denied requests' }).click()
    await expect
      .poll(
        async () => {
          await page.reload()
          await part(page, 'Denied requests').getByRole('heading').first().waitFor()
          await page.waitForTimeout(300)
          return await part(page, 'Denied requests').getByRole('row', { name: /clerk/ }).count()
        },
        { timeout: 15_000 },
      )
      .toBeGreaterThan(0)
    await part(page, 'Denied requests').getByText('admin:keys').first().waitFor()
  })
})

describe('Settings: journal', () => {
  it('is verified with a button, and every page says so', async () => {
    const page = await collet.page({ path: '/settings', as: 'operator' })
    await page.getByRole('button', { name: 'Journal', exact: true }).click()
    const journal = part(page, 'Journal')
    await journal.getByText('Not verified since the server started').waitFor()
    await expect.poll(() => echo(page)).toBe('collet journal verify')
    await journal.getByRole('button', { name: 'Verify now' }).click()
    await journal.getByText(/^Unbroken, /).waitFor()
    await page
      .locator('.echo')
      .getByText(/^Journal verified \d\d:\d\d$/)
      .waitFor()
    await journal.getByRole('button', { name: 'Copy journal heads' }).click()
    expect(await clipboard(page)).toMatch(/^[\w-]+:\d+:\S+$/)
    await journal.getByText('Limits of this check').click()
    await journal.getByText('changes made by someone who holds the key').waitFor()
    await page.getByRole('link', { name: 'Catalog' }).first().click()
    await page.waitForURL('**/console/catalog')
    await page
      .locator('.echo')
      .getByText(/^Journal verified/)
      .waitFor()
  })

  it('can be stopped, and says when the journal is not what was written', async () => {
    const page = await collet.page({ path: '/settings', as: 'operator' })
    const journal = part(page, 'Journal')
    await journal.getByRole('button', { name: 'Verify now' }).waitFor()
    let hold: () => void = () => undefined
    const held = new Promise<void>((resolve) => {
      hold = resolve
    })
    await page.route('**/admin/journal/verify', async (route) => {
      await held
      await route.continue().catch(() => undefined)
    })
    await journal.getByRole('button', { name: 'Verify now' }).click()
    await journal.getByRole('button', { name: 'Stop' }).click()
    await journal.getByText('Stopped. The rest was not checked.').waitFor()
    hold()
    await page.unroute('**/admin/journal/verify')

    const database = new DatabaseSync(join(collet.folder, '.collet/collet.db'))
    const change = (from: string, to: string): void => {
      database.exec(`UPDATE commit_groups SET events = replace(events, '${from}', '${to}')`)
    }
    change('Mail.Send', 'Mail.Gone')
    try {
      await journal.getByRole('button', { name: 'Verify now' }).click()
      await journal.getByText('Not intact').waitFor()
      await journal.getByText('its contents or the link before it were changed').waitFor()
      await page.locator('.echo').getByText('Journal not intact').waitFor()
      await checkAxe(page, 'a journal that is not intact')
    } finally {
      change('Mail.Gone', 'Mail.Send')
      database.close()
    }
  })
})

describe('Settings: clients and config', () => {
  it('has what each client needs, for everything or one toolset', async () => {
    const page = await collet.page({ path: '/settings', as: 'operator' })
    await page.getByRole('button', { name: 'Clients' }).click()
    const clients = part(page, 'Connect a client')
    // The texts themselves are compared with what each client reads in client-snippets.test.ts.
    const textsFor = async (toolset: string): Promise<readonly { title: string; text: string }[]> =>
      JSON.parse(await (await collet.admin(`/admin/server?toolset=${toolset}`)).text()).clients
    for (const toolset of ['', 'mail']) {
      await clients.getByLabel('Connect it to').selectOption(toolset)
      const texts = await textsFor(toolset)
      expect(texts.map(({ title }) => title)).toEqual(
        expect.arrayContaining([
          'Claude Desktop',
          'Claude Code',
          'Cursor',
          'VS Code',
          'Inspector',
          'LangChain',
        ]),
      )
      for (const { title, text } of texts) {
        await clients.getByRole('button', { name: title, exact: true }).click()
        const copy = clients.getByRole('button', { name: `Copy Configuration for ${title}` })
        await expect
          .poll(async () => {
            await copy.click()
            return clipboard(page)
          })
          .toBe(text)
        expect(await clients.locator('.code pre').first().textContent()).toBe(text)
      }
    }
    await clients.getByLabel('Connect it to').selectOption('')
    await clients.getByRole('button', { name: 'Cursor', exact: true }).click()
    const link = clients.getByRole('link', { name: 'Add to Cursor' })
    expect(await link.getAttribute('href')).toMatch(
      /^cursor:\/\/anysphere\.cursor-deeplink\/mcp\/install\?name=collet&config=/,
    )
    await clients.getByLabel('Connect it to').selectOption('mail')
    await expect.poll(() => echo(page)).toBe('collet connect cursor --toolset mail')
    await clients.getByText(`${collet.url}/mcp/mail"`).waitFor()
    for (const title of ['MCP', 'OTC', 'OpenTool', 'openwop', 'mail']) {
      await clients.getByRole('button', { name: `Copy ${title} address` }).click()
      expect(await clipboard(page)).toContain(collet.url)
    }
  })

  it('reads the config again and says what changed, and what is wrong with it', async () => {
    const page = await collet.page({ path: '/settings', as: 'operator' })
    await page.getByRole('button', { name: 'Server', exact: true }).click()
    await part(page, 'Server').getByText('SQLite').waitFor()
    const config = part(page, 'Config')
    const file = join(collet.folder, 'collet.config.mjs')
    const before = readFileSync(file, 'utf8')
    try {
      await config.getByRole('button', { name: 'Reload config' }).click()
      await config.getByText('nothing', { exact: true }).waitFor()
      await expect.poll(() => echo(page)).toBe('collet reload')
      writeFileSync(file, before.replace('calls: 10', 'calls: 11'))
      await config.getByRole('button', { name: 'Reload config' }).click()
      await config.getByText('budgets').waitFor()
      writeFileSync(file, before.replace('calls: 10', 'calls: "many"'))
      await config.getByRole('button', { name: 'Reload config' }).click()
      await config.getByText('The config was refused; the previous config stays in force.').waitFor()
      await checkAxe(page, 'a config that was refused')
    } finally {
      writeFileSync(file, before)
    }
  })
})

describe('Settings: who may what', () => {
  it('says which scope a part needs, and asks the server for nothing that it would refuse', async () => {
    const page = await collet.page({ path: '/settings', as: { key: CLERK_KEY } })
    const refused: string[] = []
    page.on('response', (response) => {
      if (
        response.status() === 403 &&
        !response.url().includes('/admin/pins') &&
        !response.url().includes('/admin/approvals')
      )
        refused.push(response.url())
    })
    await page.reload()
    await part(page, 'Keys').getByText('This needs the scope admin:keys').waitFor()
    await part(page, 'Limits and budgets').getByText('This needs the scope admin:calls').waitFor()
    await part(page, 'Journal').getByText('This needs the scope audit:read').waitFor()
    await part(page, 'Config').getByText('This needs the scope admin:reload').waitFor()
    await part(page, 'Connect a client').getByText('This server requires a key').waitFor()
    expect(await page.getByRole('button', { name: 'Create key' }).count()).toBe(0)
    expect(refused).toEqual([])
    await checkAxe(page, 'Settings of somebody without scopes')
  })

  it('tells whoever belongs to one tenant what is for the whole server', async () => {
    const page = await collet.page({ path: '/settings', as: { key: FAR_KEY } })
    await part(page, 'Journal').getByText('This is for the whole server').waitFor()
    await part(page, 'Keys').getByRole('button', { name: 'Create key' }).waitFor()
  })

  it('keeps what was written when the session ends', async () => {
    const page = await collet.page({ path: '/settings', as: { key: ROOT_KEY } })
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

  it('fits a phone', async () => {
    const page = await collet.page({ path: '/settings', as: 'operator', width: 390, height: 844 })
    await page.getByRole('button', { name: 'Rotate kept-name' }).waitFor()
    await checkAxe(page, 'Settings on a phone')
    await shoot(page, 'settings-390')
    const wide = await collet.page({ path: '/settings', as: 'operator' })
    await part(wide, 'Journal').getByRole('button', { name: 'Verify now' }).click()
    await part(wide, 'Journal')
      .getByText(/^Unbroken, /)
      .waitFor()
    await wide.getByRole('row', { name: /kept-name/ }).waitFor()
    await shoot(wide, 'settings')
  })
})
