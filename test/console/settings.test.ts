import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { checkAxe, shoot, useConsole } from './harness.ts'
import { CLERK_KEY, CONFIG, callAs, clipboard, echo, part, ROOT_KEY } from './settings-fixture.ts'

const collet = useConsole({ config: CONFIG })

describe('Settings: usage and limits', () => {
  it('shows usage by caller and what is left, in amber when little is left', async () => {
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
})

describe('Settings: clients and config', () => {
  it('has the configuration of each client, for all tools or one toolset', async () => {
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

  it('reloads the config and shows what changed, or what is wrong with it', async () => {
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

describe('Settings: permissions', () => {
  it('shows no part that the credential may not see, and asks for nothing that would be refused', async () => {
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
    await part(page, 'Connect a client').getByText('This server requires a key').waitFor()
    for (const name of ['Limits and budgets', 'Usage by caller', 'Config'])
      expect(await part(page, name).count(), name).toBe(0)
    for (const name of ['Limits', 'Usage'])
      expect(await page.getByRole('button', { name, exact: true }).count(), name).toBe(0)
    expect(refused).toEqual([])
    await checkAxe(page, 'Settings of somebody without scopes')
  })

  it('fits a phone', async () => {
    const page = await collet.page({ path: '/settings', as: 'operator', width: 390, height: 844 })
    await part(page, 'Limits and budgets').getByText('Concurrent calls').waitFor()
    await checkAxe(page, 'Settings on a phone')
    await shoot(page, 'settings-390')
    const wide = await collet.page({ path: '/settings', as: 'operator' })
    await part(wide, 'Limits and budgets').getByText('Concurrent calls').waitFor()
    await shoot(wide, 'settings')
  })
})
