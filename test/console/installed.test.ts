import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { useConsole } from './harness.ts'

const NEEDS_GOOGLE = `{
  [Symbol.for('collet.tool')]: true,
  id: 'Mail.Read@1.0.0',
  description: 'Reads mail.',
  input: { type: 'object' },
  output: {},
  requirements: { authorization: [{ id: 'google', oauth2: {} }] },
  run: () => null,
}`

describe('the console of an installed package', () => {
  const collet = useConsole({ config: `export default { tools: [${NEEDS_GOOGLE}] }` })
  const programs = join(collet.folder, 'node_modules/.bin')
  mkdirSync(programs, { recursive: true })
  writeFileSync(join(programs, process.platform === 'win32' ? 'collet.cmd' : 'collet'), '')

  it.each([
    ['/tools', 'npx collet tools'],
    ['/tools/Mail.Read', "npx collet call Mail.Read@1.0.0 '{}'"],
    ['/calls', 'npx collet calls --since 24h --follow'],
    ['/approvals', 'npx collet approvals list'],
    ['/sources', 'npx collet sources'],
    ['/access', 'npx collet keys list'],
    ['/settings', 'npx collet connect'],
  ])('names under %s the command that people there can run', async (path, command) => {
    const page = await collet.page({ path, as: 'operator' })
    await expect.poll(() => page.locator('.echo code').innerText()).toBe(command)
    await page.getByRole('button', { name: 'Copy command', exact: true }).last().click()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(command)
  })

  it('names commands in dialogs the same way', async () => {
    const page = await collet.page({ path: '/access?section=accounts', as: 'operator' })
    await page.getByRole('button', { name: 'Set up…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText('npx collet reload', { exact: true }).waitFor()
    await dialog.getByRole('button', { name: 'Copy command' }).click()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(
      'npx collet secrets set google --token',
    )
  })
})
