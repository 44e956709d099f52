import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { checkAxe, shoot, useConsole } from './harness.ts'
import { TOOLS } from './tool-fixture.ts'

const run = promisify(execFile)

const OPEN = `${TOOLS}
export default { tools: TOOLS, authoring: { describeParameters: false } }`

const input = (page: Page) => page.getByRole('textbox', { name: 'Input as JSON' })
const result = (page: Page) => page.getByRole('region', { name: 'Result' })
const runButton = (page: Page) => page.getByRole('button', { name: /^Run/ })
/** The form is a file of its own, which comes after the page. */
const form = (page: Page) => page.locator('.input-form').waitFor()

async function inputOf(page: Page): Promise<unknown> {
  return JSON.parse(await input(page).inputValue())
}

async function outputOf(page: Page): Promise<unknown> {
  const output = result(page).getByRole('region', { name: 'Output' })
  return JSON.parse((await output.textContent()) ?? '')
}

describe('the page of a tool', () => {
  const collet = useConsole({ config: OPEN })
  const open = (tool: string, options = {}) => collet.page({ path: `/tools/${tool}`, ...options })

  it('says what a tool is, may do, needs, takes and gives', async () => {
    const page = await open('Gmail.GetEmails', { as: 'operator' })
    await page.getByRole('heading', { level: 1, name: 'Gmail.GetEmails' }).waitFor()
    await page.getByText('Lists messages that match a Gmail search, newest first.').waitFor()
    await page.getByText('Reads. Changes nothing.').waitFor()
    await page.getByText('Reaches no network.').waitFor()
    await page.getByText('Runs without asking anyone.').waitFor()
    await page.getByText('Nothing but its input.').waitFor()
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    await page.reload()
    await page.getByText('Calls, 24 h').waitFor()
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    await checkAxe(page, 'a tool')
    await shoot(page, 'tool')
    expect(await page.locator('.echo code').textContent()).toBe(
      `collet call Gmail.GetEmails@1.2.0 '{"query":"is:unread","max_results":2}'`,
    )
  })

  it('shows its schemas in words, as they are checked and as models are told, and keeps that in the address', async () => {
    const page = await open('Gmail.GetEmails')
    const schemas = page.getByRole('region', { name: 'Schemas' })
    await schemas.getByText('integer, 1 to 100').waitFor()
    await schemas.getByText('emails[].subject').waitFor()
    await schemas.getByRole('button', { name: 'JSON Schema' }).click()
    await schemas.getByRole('region', { name: 'Input schema' }).getByText('"additionalProperties"').waitFor()
    await schemas.getByRole('button', { name: 'Model' }).click()
    const told = schemas.getByRole('region', { name: 'Definition for models' })
    for (const [whose, word] of [
      ['OpenAI', '"function"'],
      ['Anthropic', '"input_schema"'],
      ['MCP', '"inputSchema"'],
    ] as const) {
      await schemas.getByRole('button', { name: whose }).click()
      await told.getByText(word).first().waitFor()
    }
    expect(new URL(page.url()).search).toBe('?schema=model&model=mcp')
    await page.reload()
    await told.getByText('"inputSchema"').first().waitFor()
    await schemas.getByRole('button', { name: 'Readable' }).click()
    await schemas.getByText('integer, 1 to 100').waitFor()
  })

  it('has another version one choice away, in the address', async () => {
    const page = await open('Gmail.GetEmails')
    await page.getByLabel('Version').selectOption('1.1.0')
    await page.waitForURL('**/tools/Gmail.GetEmails?version=1.1.0')
    await form(page)
    await page.getByRole('checkbox', { name: 'include_body' }).waitFor({ state: 'detached' })
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    await result(page).getByRole('button', { name: 'Request' }).click()
    await result(page).getByText('Gmail.GetEmails@1.1.0').waitFor()
    await page.getByRole('button', { name: 'OpenTool' }).click()
    await page.getByText('"method":"Gmail_GetEmails@1.1.0"').waitFor()
    await page.goBack()
    await page.getByRole('checkbox', { name: 'include_body' }).waitFor()
    await page.getByRole('link', { name: 'Changes' }).click()
    await page.waitForURL('**#changes')
    await page.getByText('shown here').waitFor()
    for (const part of ['Schemas', 'About']) await page.getByRole('link', { name: part, exact: true }).click()
    await page.getByRole('link', { name: 'Catalog' }).first().click()
    await page.waitForURL('**/console/catalog')
  })

  it('says when there is no such tool, or no such version', async () => {
    const page = await open('Gmail.GetEmail')
    await page.getByText('There is no such tool').waitFor()
    await page.getByText('Gmail.GetEmails').waitFor()
    await page.getByRole('link', { name: 'Open the catalog' }).click()
    const old = await open('Gmail.GetEmails?version=9.9.9')
    await old.getByText('It has 1.1.0, 1.2.0').waitFor()
  })

  it('keeps the form and the JSON the same, and offers examples', async () => {
    const page = await open('Gmail.GetEmails')
    await form(page)
    expect(await inputOf(page)).toEqual({ query: 'is:unread', max_results: 2 })
    await page.getByLabel('Example').selectOption('1')
    expect(await inputOf(page)).toEqual({ query: 'from:stripe.com' })
    await page.getByRole('textbox', { name: /^query/ }).fill('in:inbox')
    await page.getByRole('checkbox', { name: 'include_body' }).check()
    expect(await inputOf(page)).toEqual({ query: 'in:inbox', include_body: true })
    await page.getByRole('button', { name: 'Leave out include_body' }).click()
    expect(await inputOf(page)).toEqual({ query: 'in:inbox' })
    await input(page).fill('{ "query": "x", "max_results": 500')
    await page.getByText('not JSON').waitFor()
    expect(await runButton(page).getAttribute('aria-disabled')).toBe('true')
    await input(page).fill('{ "query": "x", "max_results": 500 }')
    await page.getByText('does not fit yet').waitFor()
    expect(await page.getByRole('spinbutton', { name: 'max_results' }).inputValue()).toBe('500')
    await input(page).fill('{ "query": "x", "max_results": 5 }')
    await page.getByText('valid', { exact: true }).waitFor()
    await page.getByRole('button', { name: 'Copy input' }).click()
    expect(await page.evaluate('navigator.clipboard.readText()')).toContain('"max_results": 5')
  })

  it('has a field for every kind of schema', async () => {
    const page = await open('Form.Kinds', { height: 1600 })
    await form(page)
    await page.getByRole('button', { name: 'Show 20 optional fields' }).click()
    await page.getByRole('textbox', { name: /^text/ }).fill('some text')
    await page.getByRole('textbox', { name: 'long' }).fill('two\nlines')
    await page.getByRole('combobox', { name: 'choice' }).selectOption({ label: 'blue' })
    await page.getByRole('combobox', { name: 'named' }).selectOption({ label: 'The second' })
    await page.getByRole('spinbutton', { name: 'number' }).fill('1.5')
    await page.getByRole('spinbutton', { name: 'whole' }).fill('7')
    await page.getByRole('checkbox', { name: 'truth' }).check()
    await page.getByLabel('day').fill('2026-11-16')
    await page.getByRole('textbox', { name: 'moment' }).fill('2026-11-16T10:00:00Z')
    await page.getByRole('button', { name: 'Add to words' }).click()
    await page.getByRole('group', { name: 'words' }).getByRole('textbox').fill('one')
    await page.getByRole('button', { name: 'Add to words' }).click()
    await page.getByRole('group', { name: 'words' }).getByRole('textbox').last().fill('two')
    await page.getByRole('group', { name: 'words' }).getByRole('button', { name: 'Remove 1' }).click()
    await page.getByRole('group', { name: 'colours' }).getByRole('checkbox', { name: 'green' }).check()
    await page.getByRole('textbox', { name: 'pair' }).fill('["a", 1]')
    await page.getByRole('group', { name: 'place' }).getByRole('textbox', { name: /^city/ }).fill('Bonn')
    await page.getByRole('button', { name: 'Add to people' }).click()
    await page.getByRole('group', { name: 'people' }).getByRole('textbox', { name: /^name/ }).fill('Ann')
    await page.getByRole('combobox', { name: 'shape' }).selectOption({ label: 'square' })
    await page.getByRole('spinbutton', { name: /^side/ }).fill('4')
    await page.getByRole('combobox', { name: 'either' }).selectOption({ label: 'number' })
    await page.getByRole('spinbutton', { name: 'either, number' }).fill('3')
    await page.getByRole('textbox', { name: 'maybe' }).fill('perhaps')
    await page.getByRole('textbox', { name: 'nullable' }).fill('full')
    await page.getByRole('textbox', { name: 'both, string' }).fill('text')
    await page.getByRole('textbox', { name: 'anything' }).fill('{"deep": [1]}')
    await page.getByRole('group', { name: 'free' }).getByRole('button', { name: 'Add a member' }).click()
    const expected = {
      ...{
        text: 'some text',
        long: 'two\nlines',
        choice: 'blue',
        named: 'b',
        number: 1.5,
        whole: 7,
        truth: true,
      },
      ...{
        day: '2026-11-16',
        moment: '2026-11-16T10:00:00Z',
        words: ['two'],
        colours: ['green'],
        pair: ['a', 1],
      },
      ...{ place: { city: 'Bonn' }, people: [{ name: 'Ann' }], shape: { kind: 'square', side: 4 } },
      ...{ either: 3, maybe: 'perhaps', nullable: 'full', both: 'text', anything: { deep: [1] } },
    }
    expect(await inputOf(page)).toMatchObject(expected)
    await checkAxe(page, 'every kind of field')
    await page.getByRole('button', { name: /^Remove newKey/ }).click()
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    expect(await outputOf(page)).toMatchObject(expected)
  })

  it('goes deep, and folds what is many', async () => {
    const deep = await open('Form.Deep')
    await deep.getByRole('textbox', { name: /^level8/ }).fill('here')
    expect(JSON.stringify(await inputOf(deep))).toBe(
      `${[1, 2, 3, 4, 5, 6, 7, 8].map((level) => `{"level${level}":`).join('')}"here"${'}'.repeat(8)}`,
    )
    const many = await open('Form.Many')
    await many.getByRole('button', { name: 'Show 199 optional fields' }).click()
    await many.getByRole('textbox', { name: 'field199' }).fill('last')
    expect(await inputOf(many)).toEqual({ field199: 'last' })
    const free = await open('Form.Free')
    await free.getByText('This tool says nothing about its input.').waitFor()
    await input(free).fill('{"any": "thing"}')
    await free.keyboard.press('Control+Enter')
    await result(free).getByText('Succeeded').waitFor()
    expect(await outputOf(free)).toEqual({ any: 'thing' })
  })
})

describe('a real call', () => {
  const collet = useConsole({ config: OPEN })
  const open = (tool: string, options = {}) => collet.page({ path: `/tools/${tool}`, ...options })

  it('shows the exchange without what is the browser’s own, and a text for programs that works', async () => {
    const page = await open('Gmail.GetEmails', { as: 'operator' })
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    await result(page)
      .getByRole('img', { name: /^Where the time went/ })
      .waitFor()
    await result(page).getByRole('button', { name: 'Request' }).click()
    const request = await result(page).getByRole('region', { name: 'Request' }).textContent()
    expect(request).toContain('POST /tools/call')
    expect(request).not.toMatch(/cookie|csrf/i)
    await result(page).getByRole('button', { name: 'Headers' }).click()
    const headers = await result(page).getByRole('region', { name: 'Headers' }).textContent()
    expect(headers).toMatch(/collet-call-id: [0-9a-f-]{36}/)
    expect(headers).not.toMatch(/set-cookie|csrf/i)

    const copied = page.getByRole('region', { name: 'Copy as' })
    const texts: Record<string, string> = {}
    for (const language of ['TypeScript', 'Python', 'curl'])
      for (const protocol of ['OpenTool', 'openwop', 'MCP', 'OTC']) {
        await copied.getByRole('button', { name: language, exact: true }).click()
        await copied.getByRole('button', { name: protocol, exact: true }).click()
        const shown = copied.getByRole('region', { name: `The call as ${language} over ${protocol}` })
        texts[`${language} ${protocol}`] = (await shown.textContent()) ?? ''
      }
    for (const text of Object.values(texts)) expect(text).not.toMatch(/cookie|csrf/i)
    expect(texts['TypeScript OTC']).toContain("from 'collet/client'")
    expect(texts['Python MCP']).toContain('ClientSession')
    for (const protocol of ['OTC', 'OpenTool', 'openwop', 'MCP']) {
      const { stdout } = await run('sh', ['-c', texts[`curl ${protocol}`] ?? ''])
      expect(stdout, `curl over ${protocol}`).toContain('193f0c7a8b1e44d0')
    }
    await copied.getByRole('button', { name: /^Copy/ }).click()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(texts['curl OTC'])
  })

  it('puts what the server found beside the fields', async () => {
    const page = await open('Bank.Pay')
    await form(page)
    await input(page).fill('{"amount": "much", "to": {}}')
    await runButton(page).click()
    await result(page).getByText('Refused').waitFor()
    await result(page).getByText('Nothing ran. What does not fit is marked in the form.').waitFor()
    await page.getByRole('alert').getByText('Must be a number').waitFor()
    await page.getByRole('group', { name: 'to' }).getByRole('alert').getByText('Is required').waitFor()
    await checkAxe(page, 'a refused input')
  })

  it('runs a tool that changes something once, although the answer was lost', async () => {
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
      // The server gets it and answers; the page hears nothing.
      await route.fetch()
      await route.abort()
    })
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('The connection broke').waitFor()
    await checkAxe(page, 'a lost answer')
    await result(page).getByRole('button', { name: 'Ask again' }).click()
    await result(page).getByText('Replayed.').waitFor()
    expect(await outputOf(page)).toEqual({ rings: 2 })
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('Replayed.').waitFor({ state: 'detached' })
    expect(await outputOf(page)).toEqual({ rings: 3 })
  })

  it('still knows of a call that was sent before the page was loaded anew', async () => {
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
    await result(page).getByText('Not seen yet').waitFor()
    await result(page).getByRole('button', { name: 'Look it up' }).click()
    await result(page).getByText('Replayed.').waitFor()
    expect(await outputOf(page)).toMatchObject({ rings: expect.any(Number) })
    await page.reload()
    await result(page).getByText('What the tool answers comes here.').waitFor()
    isArriving = false
    await form(page)
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('The connection broke').waitFor()
    await page.reload()
    await result(page).getByRole('button', { name: 'Look it up' }).click()
    await result(page).getByText('That call never arrived: nothing ran.').waitFor()
  })

  it('waits for approval, and goes on when somebody has given it', async () => {
    const page = await open('Bank.Pay')
    await form(page)
    await input(page).fill('{"amount": 5}')
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('Waits for approval').waitFor()
    await checkAxe(page, 'a call that waits')
    await shoot(page, 'tool-parked')
    const link = result(page).getByRole('link', { name: 'Open the approval' })
    const id = ((await link.getAttribute('href')) ?? '').split('/').at(-1) ?? ''
    const approver = await collet.page({ path: `/approvals/${id}`, as: 'operator' })
    await approver.getByRole('button', { name: 'Approve once' }).click()
    await result(page).getByText('Succeeded').waitFor()
    expect(await outputOf(page)).toEqual({ paid: 5 })

    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page).getByText('Waits for approval').waitFor()
    await result(page).getByRole('button', { name: 'Withdraw call' }).click()
    await result(page).getByText('What the tool answers comes here.').waitFor()
  })

  it('shows how far a tool is, and stops it', async () => {
    const page = await open('Slow.Count')
    await page.getByRole('button', { name: 'Run for real' }).click()
    await result(page)
      .getByText(/^Counted/)
      .waitFor()
    await result(page).getByRole('progressbar').waitFor()
    await checkAxe(page, 'a call that runs')
    await result(page).getByRole('button', { name: 'Stop' }).click()
    await result(page).getByText('Failed', { exact: true }).waitFor()
    await result(page).getByText('Look at the call before you run it again.').waitFor()
  })

  it('says what failed and what to do', async () => {
    const page = await open('Bad.Luck')
    await runButton(page).click()
    await result(page).getByText('Failed', { exact: true }).waitFor()
    expect(await result(page).textContent()).not.toContain('a detail for the log')
    const needy = await open('Needs.All')
    await needy.getByText('google account').waitFor()
    await needy.getByText('Secret API_KEY').waitFor()
    await needy.getByRole('button', { name: 'Copy command that sets API_KEY' }).click()
    expect(await needy.evaluate('navigator.clipboard.readText()')).toContain('collet secrets set API_KEY')
    await runButton(needy).click()
    await result(needy)
      .getByText(/Waits for access|Refused/)
      .waitFor()
    await checkAxe(needy, 'a tool that lacks something')
  })

  it('cuts what is long, and shows pictures and nothing that could run', async () => {
    const big = await open('Big.Text')
    await runButton(big).click()
    const output = result(big).getByRole('region', { name: 'Output' })
    await output.waitFor()
    expect(await output.textContent()).not.toContain('the very end')
    await result(big).getByRole('button', { name: 'Show all' }).click()
    expect(await output.textContent()).toContain('the very end')

    const art = await open('Art.Draw')
    await runButton(art).click()
    const blocks = art.getByRole('list', { name: 'Content' })
    await blocks.getByRole('img').waitFor()
    expect(await blocks.getByRole('img').count()).toBe(1)
    expect(await blocks.locator('a[href^="javascript"]').count()).toBe(0)
    expect(await blocks.getByRole('link', { name: 'Save file' }).count()).toBe(2)
    expect(await art.title()).not.toContain('owned')
    await checkAxe(art, 'content')
    await shoot(art, 'tool-content')
  })

  it('takes texts of others as texts', async () => {
    const page = await open('Evil.Words')
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    for (const view of ['JSON Schema', 'Model']) await page.getByRole('button', { name: view }).click()
    expect(await page.locator('img').count()).toBe(0)
    expect(await page.locator('main script').count()).toBe(0)
    expect(await page.title()).not.toBe('owned')
  })

  it('fits a phone', async () => {
    const page = await open('Gmail.GetEmails', { width: 390, height: 844 })
    await page.getByRole('link', { name: 'Try it' }).click()
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    await page.getByLabel('Version').waitFor()
    await checkAxe(page, 'a tool on a phone')
    await shoot(page, 'tool-390')
  })
})

const KEY = 'a-key-that-is-long-enough-for-a-test'

describe('a server that wants to know who calls', () => {
  const collet = useConsole({
    config: `${TOOLS}
export default { tools: TOOLS, authoring: { describeParameters: false }, auth: { apiKeys: [{ id: 'ann', key: '${KEY}' }] } }`,
  })

  it('calls as the one who signed in, and copies a place for a key', async () => {
    const page = await collet.page({ path: '/tools/Gmail.GetEmails', as: { key: KEY } })
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    await result(page).getByRole('button', { name: 'Request' }).click()
    await result(page).getByText('authorization: Bearer <your API key>').waitFor()
    const text = (await page.getByRole('region', { name: 'The call as curl over OTC' }).textContent()) ?? ''
    expect(text).toContain('$COLLET_API_KEY')
    expect(await page.content()).not.toContain(KEY)
    const { stdout } = await run('sh', ['-c', text], { env: { ...process.env, COLLET_API_KEY: KEY } })
    expect(stdout).toContain('193f0c7a8b1e44d0')
    await page.getByRole('link', { name: 'Calls' }).first().waitFor()
  })

  it('says which credential a call uses', async () => {
    const page = await collet.page({ path: '/tools/Needs.Secret', as: { key: KEY } })
    await page.getByText('key:ann has none yet.').waitFor()
    expect(await page.getByRole('link', { name: 'Set secret' }).getAttribute('href')).toContain(
      '/connections',
    )
    const secret = { name: 'API_KEY', value: 'twelve chars', principal: 'key:ann' }
    const set = await collet.admin('/admin/secrets', { method: 'POST', body: JSON.stringify(secret) })
    expect(set.status, await set.text()).toBe(200)
    await page.reload()
    await page.getByText('the one of key:ann, because the call is made as key:ann.').waitFor()
    await runButton(page).click()
    await result(page).getByText('Succeeded').waitFor()
    expect(await outputOf(page)).toBe(12)
  })

  it('tells the operator, who calls nothing, what to do', async () => {
    const page = await collet.page({ path: '/tools/Gmail.GetEmails', as: 'operator' })
    await form(page)
    await runButton(page).click()
    await result(page).getByText('Refused').waitFor()
    await result(page)
      .getByText(/Sign in with an API key to call tools/)
      .first()
      .waitFor()
  })
})
