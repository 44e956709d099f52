import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { checkAxe, useConsole } from './harness.ts'
import { CLERK_KEY, CONFIG, callAs, clipboard, echo, part, ROOT_KEY } from './settings-fixture.ts'

const collet = useConsole({ config: CONFIG })

describe('Audit: denied requests', () => {
  it('shows refused requests by caller', async () => {
    const headers = { authorization: `Bearer ${CLERK_KEY}` }
    expect((await fetch(`${collet.url}/admin/keys`, { headers })).status).toBe(403)
    const page = await collet.page({ path: '/audit?view=denied', as: 'operator' })
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

describe('Audit: journal', () => {
  it('is verified with a button, and every page shows the result', async () => {
    const page = await collet.page({ path: '/audit?view=verification', as: 'operator' })
    const journal = part(page, 'Verification')
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
    await page.getByRole('link', { name: 'Tools' }).first().click()
    await page.waitForURL('**/console/tools')
    await page
      .locator('.echo')
      .getByText(/^Journal verified/)
      .waitFor()
  })

  it('can be stopped, and reports a journal that was changed', async () => {
    const page = await collet.page({ path: '/audit?view=verification', as: 'operator' })
    const journal = part(page, 'Verification')
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

    expect(await callAs(ROOT_KEY, collet)).toBe(200)
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
