import { expect, it } from 'vitest'
import { checkAxe, useConsole } from './harness.ts'

/** The command palette and saved views, which lead from each page to others. */

const collet = useConsole({
  config: `export default { tools: [{
    [Symbol.for('collet.tool')]: true,
    id: 'Echo.Say@1.0.0',
    description: 'Says it again.',
    input: { type: 'object' },
    output: {},
    run: (input) => input,
  }] }`,
})

it('runs commands from the palette, only those that the credential may use, and tells how they ended', async () => {
  const page = await collet.page({ path: '/tools', as: 'operator' })
  const field = page.getByRole('combobox', { name: 'Page, tool or command' })
  const choose = async (text: string): Promise<void> => {
    await page.keyboard.press('Control+k')
    await field.fill(text)
    await page.keyboard.press('Enter')
  }
  await choose('create key')
  await page.getByRole('dialog', { name: 'Create key' }).getByLabel('Name').waitFor()
  await page.keyboard.press('Escape')
  await choose('add source')
  await page.waitForURL('**/console/sources')
  await expect.poll(() => page.evaluate('document.activeElement?.id')).toBe('add')
  await page.keyboard.press('Escape')
  await choose('dark')
  expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark')
  await choose('verify journal')
  await page.getByRole('status').getByText('The journal is intact.').waitFor()
  await checkAxe(page, 'the palette with a result')
  await field.fill('reload')
  await page.keyboard.press('Enter')
  await page.getByText('The config was read again. Nothing changed.').waitFor()
  await page.keyboard.press('Escape')
  await choose('access oauth')
  await page.waitForURL('**/console/access?section=accounts')
  await choose('times utc')
  await page.getByText('Times are in UTC').waitFor()
  await choose('abcdefgh-not-a-call')
  await page.waitForURL('**/console/calls/abcdefgh-not-a-call')
  await choose('sign out')
  await page.getByRole('button', { name: /Not signed in/ }).waitFor()
  await page.keyboard.press('Control+k')
  await field.fill('create key')
  await page.getByText('Nothing matches "create key".').waitFor()
})

it('keeps filters under a name, opens them again, and forgets them', async () => {
  const page = await collet.page({ path: '/tools?q=mail&tier=write', as: 'operator' })
  const menu = (name: string) => page.getByRole('button', { name, exact: true })
  await menu('Views').click()
  await page.getByRole('menuitem', { name: 'Save this view…' }).click()
  await page.getByRole('button', { name: 'Save view' }).click()
  await page.getByText('Enter a name.').waitFor()
  await page.getByLabel('Name').fill('Mail that writes')
  await checkAxe(page, 'saving a view')
  await page.getByRole('button', { name: 'Save view' }).click()
  await menu('Mail that writes').waitFor()
  await page.goto(`${collet.url}/console/tools`)
  await menu('Views').click()
  await page.getByRole('menuitem', { name: 'Mail that writes' }).click()
  await page.waitForURL('**/console/tools?q=mail&tier=write')
  await menu('Mail that writes').click()
  await page.getByRole('menuitem', { name: 'Remove "Mail that writes"' }).click()
  await menu('Views').waitFor()
})
