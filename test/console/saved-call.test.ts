import { describe, expect, it } from 'vitest'
import { checkAxe, useConsole } from './harness.ts'
import { form, input, inputOf, OPEN, outputOf, result } from './tool-fixture.ts'

/** A command, so a tool of tier `exec`. */
const HOST = `Host: {
  type: 'command', vendor: 'acme', isolation: 'none', policy: { approval: 'never' },
  commands: { ring: {
    argv: ['node', '-p', '7', '--', '{door}'], description: 'Rings.',
    input: { type: 'object', properties: { door: { type: 'string' } }, required: ['door'] },
  } },
}`

/** Between a call and its answer, connections break, pages are reloaded, and people sign in. */
describe('a call whose answer was not seen', () => {
  const collet = useConsole({ config: OPEN.replace('sources: { github }', `sources: { github, ${HOST} }`) })
  const open = (tool: string, options = {}) => collet.page({ path: `/tools/${tool}`, ...options })

  it('runs a tool with effects once, although the answer was lost', async () => {
    const page = await open('Door.Ring', { mayComplain: [/ERR_FAILED/] })
    await form(page)
    await page.getByRole('textbox', { name: /^door/ }).fill('front')
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('Succeeded').waitFor()
    expect(await outputOf(page)).toEqual({ rings: 1 })
    let lost = 0
    await page.route('**/tools/call', async (route) => {
      if (lost > 0) return route.continue()
      lost += 1
      // The server answers, but the page does not get the answer.
      await route.fetch()
      await route.abort()
    })
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('The connection broke').waitFor()
    await checkAxe(page, 'a lost answer')
    await result(page).getByRole('button', { name: 'Retry' }).click()
    await result(page).getByText('Replayed.').waitFor()
    expect(await outputOf(page)).toEqual({ rings: 2 })
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('Replayed.').waitFor({ state: 'detached' })
    expect(await outputOf(page)).toEqual({ rings: 3 })
  })

  it('finds a call that was sent before the page was reloaded', async () => {
    const page = await open('Door.Ring?input=%7B%22door%22%3A%22back%22%7D', { mayComplain: [/ERR_FAILED/] })
    await form(page)
    expect(await inputOf(page)).toEqual({ door: 'back' })
    let isArriving = true
    await page.route('**/tools/call', async (route) => {
      if (isArriving) await route.fetch()
      await route.abort()
    })
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('The connection broke').waitFor()
    await page.reload()
    await result(page).getByText('Result not shown yet').waitFor()
    await result(page).getByRole('button', { name: 'Show result' }).click()
    await result(page).getByText('Replayed.').waitFor()
    expect(await outputOf(page)).toMatchObject({ rings: expect.any(Number) })
    await page.reload()
    await result(page).getByText('Run the tool to see its result.').waitFor()
    isArriving = false
    await form(page)
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('The connection broke').waitFor()
    await page.reload()
    await result(page).getByRole('button', { name: 'Show result' }).click()
    await result(page).getByText('no record of that call under your name').waitFor()
  })

  it.each(['Host.ring', 'Door.Ring'])(
    'starts %s once, whether the answer or the page was lost',
    async (tool) => {
      const door = `lost-${tool}`
      const since = new Date().toISOString()
      const page = await open(`${tool}?input=${encodeURIComponent(JSON.stringify({ door }))}`, {
        as: 'operator',
        mayComplain: [/ERR_FAILED/],
      })
      await form(page)
      let isLost = true
      await page.route('**/tools/call', async (route) => {
        if (!isLost) return route.continue()
        await route.fetch()
        await route.abort()
      })
      await page.getByRole('button', { name: 'Run for real' }).click()
      await result(page).getByText('The connection broke').waitFor()
      await page.reload()
      await result(page).getByText('Result not shown yet').waitFor()
      await result(page).getByRole('button', { name: 'Show result' }).click()
      await result(page).getByText('Replayed.').waitFor()
      await form(page)
      await page.getByRole('button', { name: 'Run for real' }).click()
      await result(page).getByText('The connection broke').waitFor()
      isLost = false
      await result(page).getByRole('button', { name: 'Retry' }).click()
      await result(page).getByText('Replayed.').waitFor()
      const ids = collet
        .sent(page, /^\/tools\/call$/)
        .map(({ body }) => JSON.parse(JSON.stringify(body)).request.call_id)
      expect(ids).toHaveLength(3)
      expect(new Set(ids).size).toBe(2)
      expect(ids[1]).toBe(ids[2])
      const { calls } = JSON.parse(
        await (await collet.admin(`/admin/calls?tool=${tool}&since=${since}`)).text(),
      )
      expect(calls.map((call: { readonly call_id: string }) => call.call_id).toSorted()).toEqual(
        [ids[0], ids[1]].toSorted(),
      )
    },
  )

  it('continues a call that waited for approval while the page was reloaded, and only with its own input', async () => {
    const page = await open('Bank.Pay?input=%7B%22amount%22%3A7%7D', { as: 'operator' })
    await form(page)
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('Waiting for approval').waitFor()
    await page.reload()
    await page.route('**/calls/*', (route) => route.fulfill({ status: 503, json: { message: 'Away.' } }))
    await result(page).getByRole('button', { name: 'Show result' }).click()
    await result(page).getByText('The outcome could not be read: Away.').waitFor()
    await page.unroute('**/calls/*')
    await result(page).getByRole('button', { name: 'Show result' }).click()
    await result(page).getByText('nothing ran yet').waitFor()
    await checkAxe(page, 'a call that was left')
    await input(page).fill('{"amount": 8}')
    await result(page).getByRole('button', { name: 'Continue this call' }).click()
    await result(page).getByText('The input above differs').waitFor()
    await input(page).fill('{"amount": 7}')
    await result(page).getByRole('button', { name: 'Continue this call' }).click()
    const link = result(page).getByRole('link', { name: 'Open the approval' })
    const id = ((await link.getAttribute('href')) ?? '').split('/').at(-1) ?? ''
    const pending = await collet.admin('/admin/approvals?state=pending')
    expect(await pending.json()).toMatchObject({ approvals: [{ id }] })
    const approver = await collet.page({ path: `/approvals/${id}`, as: 'operator' })
    await approver.getByRole('button', { name: 'Approve once' }).click()
    await result(page).getByText('Succeeded').waitFor()
    expect(await outputOf(page)).toEqual({ paid: 7 })
    await page.getByRole('link', { name: /^Calls\s*1$/ }).waitFor()
  })

  it('continues after a sign-in as the operator: calls are anonymous before and after it', async () => {
    const page = await open('Bank.Pay?input=%7B%22amount%22%3A9%7D')
    await form(page)
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('Waiting for approval').waitFor()
    const other = await page.context().newPage()
    await other.goto(await collet.link())
    await page.getByRole('button', { name: 'Not signed in' }).first().click()
    await page.getByRole('menuitem', { name: 'Sign in' }).click()
    await page.getByRole('dialog').waitFor()
    await page.evaluate('dispatchEvent(new Event("focus"))')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    const approval = result(page).getByRole('link', { name: 'Open the approval' })
    const id = ((await approval.getAttribute('href')) ?? '').split('/').at(-1) ?? ''
    await other.goto(`${collet.url}/console/approvals/${id}`)
    await other.getByRole('button', { name: 'Approve once' }).click()
    await result(page).getByText('Succeeded').waitFor()
    expect(await outputOf(page)).toEqual({ paid: 9 })
  })

  // The last one: its key closes the server.
  it('is not sent again under the name of a person who signs in meanwhile', async () => {
    const page = await open('Bank.Pay?input=%7B%22amount%22%3A10%7D')
    await form(page)
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('Waiting for approval').waitFor()
    const made = await collet.admin('/admin/keys', { method: 'POST', body: '{"principal":"bob"}' })
    const { key } = JSON.parse(await made.text())
    const dialog = page.getByRole('dialog', { name: 'Sign in' })
    await dialog.getByLabel('API key').fill(key)
    await dialog.getByRole('button', { name: 'Sign in with the key' }).click()
    await result(page).getByText('That call was made under another name').waitFor()
    expect(await inputOf(page)).toEqual({ amount: 10 })
    const pending: unknown = await (await collet.admin('/admin/approvals?state=pending')).json()
    expect(pending).toMatchObject({ approvals: [expect.anything()] })
  })
})
