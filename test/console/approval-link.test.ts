import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, describe, expect, it } from 'vitest'
import { checkAxe, useConsole } from './harness.ts'

const PROGRAM = join(import.meta.dirname, '../../bin/collet.js')
const CONFIG = `
const tool = (id, safetyTier) => ({
  [Symbol.for('collet.tool')]: true,
  id,
  description: 'Pays an amount to a person.',
  input: { type: 'object' },
  output: {},
  policy: { safetyTier, approval: 'always' },
  run: () => 'done',
})
export default { tools: [tool('Bank.Pay@1.0.0', 'write'), tool('Ops.Shell@1.0.0', 'exec')] }
`
const KEY = randomBytes(32).toString('base64')
const NOTE = 'a very long note '.repeat(100)

/** The approval screen for people without a session (rule 23). */
describe('the page behind an approval link', () => {
  const console_ = useConsole({ config: CONFIG, env: { COLLET_KEY: KEY } })

  async function linkTo(tool: string, input: object): Promise<string> {
    const answer = await fetch(`${console_.url}/tools/call`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ request: { tool_id: tool, input } }),
    })
    const [, id = ''] = /\/approvals\/([\w-]+)"/.exec(await answer.text()) ?? []
    const body = JSON.stringify({ approver: 'dana@acme.io' })
    const made = await console_.admin(`/admin/approvals/${id}/link`, { method: 'POST', body })
    const [url = ''] = /http:[^"]+\/approve\/[^"]+/.exec(await made.text()) ?? []
    return url
  }

  it('approves only after all arguments were shown', async () => {
    const page = await console_.page({ width: 390, height: 844 })
    await page.goto(await linkTo('Bank.Pay', { to: 'Ann', note: NOTE }))
    const approve = page.getByRole('button', { name: 'Approve once' })
    expect(await approve.getAttribute('aria-disabled')).toBe('true')
    await page.getByText('You have not seen all arguments.').waitFor()
    await page.getByRole('button', { name: /^Show the remaining/ }).click()
    await page.getByText('Input hash').scrollIntoViewIfNeeded()
    await expect.poll(() => approve.getAttribute('aria-disabled')).toBe('false')
    await checkAxe(page, 'a link with long arguments')
    await approve.click()
    await page.getByRole('heading', { name: 'You approved this call' }).waitFor()
  })

  it('shows a command that it may not decide, and how to decide it', async () => {
    const page = await console_.page({ width: 390, height: 844 })
    await page.goto(await linkTo('Ops.Shell', { argv: ['rm', '-rf', '/'] }))
    await page.getByText('The call cannot be decided on this page.').waitFor()
    await page.getByText(/collet approvals approve [\w-]+/).waitFor()
    await page.getByText('-rf').waitFor()
    expect(await page.getByRole('button', { name: 'Approve once' }).count()).toBe(0)
    await checkAxe(page, 'a link that only shows')
  })

  it('decides on a plain page when its script does not load', async () => {
    const page = await console_.page({ width: 390, height: 844 })
    const scripts = '**/console/assets/*.js'
    await page.route(scripts, (route) => route.abort())
    await page.goto(await linkTo('Bank.Pay', { to: 'Ben' }))
    await page.getByText('"to": "Ben"').waitFor()
    await checkAxe(page, 'a link without its script')
    await page.getByLabel(/^Reason/).fill('Not Ben.')
    await page.getByRole('button', { name: 'Reject' }).click()
    await page.getByRole('heading', { name: 'You rejected this call' }).waitFor()
    expect(console_.takeFaults().every((fault) => fault.includes('ERR_FAILED'))).toBe(true)
  })

  it('allows only its own files, and no script in the page', async () => {
    const answer = await fetch(await linkTo('Bank.Pay', { to: '<script>alert(1)</script>' }))
    expect(answer.headers.get('content-security-policy')).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'",
    )
    expect(answer.headers.get('x-frame-options')).toBe('DENY')
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.headers.get('set-cookie')).toMatch(/HttpOnly; SameSite=Strict/)
    expect(await answer.text()).not.toMatch(/<script(?![^>]*\bsrc=)|\son\w+=|style=/)
  })

  describe('of collet mcp', () => {
    let child: ChildProcessWithoutNullStreams | undefined
    afterEach(() => child?.kill())

    it('is the same screen, after the sign-in by link', async () => {
      child = spawn(process.execPath, [PROGRAM, 'mcp'], {
        cwd: console_.folder,
        env: { ...process.env, COLLET_KEY: KEY, NO_COLOR: '1' },
      })
      const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      const send = (message: object) =>
        child?.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
      const clientInfo = { name: 'test', version: '1' }
      send({
        id: 1,
        method: 'initialize',
        params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo },
      })
      await answers.next()
      send({ method: 'notifications/initialized' })
      send({ id: 2, method: 'tools/call', params: { name: 'Bank_Pay', arguments: { to: 'Cleo' } } })
      const { value } = await answers.next()
      const [, origin = '', id = ''] =
        /(http:\/\/127\.0\.0\.1:\d+)\/approvals\/([\w-]+)/.exec(value ?? '') ?? []
      const page = await console_.page({ path: '/' })
      await page.goto((await console_.command('sign-in', id, '--url', origin)).trim())
      await page.getByRole('heading', { name: 'Bank.Pay' }).waitFor()
      await page.getByText('Cleo').waitFor()
      await page.getByRole('button', { name: 'Approve once' }).click()
      await page.getByRole('heading', { name: 'You approved this call' }).waitFor()
      // Another port than that of the server under test.
      expect(console_.takeFaults().every((fault) => fault === `a request to ${origin}`)).toBe(true)
    })
  })
})
