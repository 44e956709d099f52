import { describe, expect, it } from 'vitest'
import { useConsole } from './harness.ts'
import { CONFIG, callAs, clipboard, dialog, part } from './settings-fixture.ts'

describe('Keys, usage and journal on PostgreSQL', () => {
  const replicated = useConsole({ config: CONFIG, engine: 'postgres' })

  it('creates a key, shows its use, revokes it, and verifies the journal', async () => {
    const page = await replicated.page({ path: '/access', as: 'operator' })
    await page.getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByLabel('Name').fill('support-bot')
    await dialog(page).getByLabel('Scopes').fill('mail:send')
    await dialog(page).getByRole('button', { name: 'Create key' }).click()
    await dialog(page).getByRole('button', { name: 'Copy key' }).click()
    const key = String(await clipboard(page))
    await dialog(page).getByRole('button', { name: 'I have copied it' }).click()
    expect(await callAs(key, replicated)).toBe(200)
    await page.goto(`${replicated.url}/console/settings`)
    await part(page, 'Limits and budgets').getByText('Calls in 1 d, support-bot').waitFor()
    await part(page, 'Usage by caller')
      .getByRole('row', { name: /support-bot/ })
      .waitFor()
    await page.goto(`${replicated.url}/console/access`)
    await page.getByRole('button', { name: /^Revoke / }).click()
    await dialog(page)
      .getByLabel(/Type support-bot/)
      .fill('support-bot')
    await dialog(page).getByRole('button', { name: 'Revoke key' }).click()
    await expect.poll(() => callAs(key, replicated), { timeout: 5_000 }).toBe(401)
    await page.goto(`${replicated.url}/console/audit?view=verification`)
    await part(page, 'Verification').getByRole('button', { name: 'Verify now' }).click()
    await part(page, 'Verification')
      .getByText(/^Unbroken, /)
      .waitFor()
  })
})
