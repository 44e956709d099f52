import { afterAll, describe, expect, it } from 'vitest'
import { createStartToken } from '#auth/start-token'
import { Secret } from '#kernel/base/secret'
import { openMemoryStore } from '#store/sqlite/sqlite-store'
import { FakeClock } from '#testing/test-gateway'
import { BrowserSessions } from './sessions.ts'

const HOURS_MS = 3_600_000
const stores = [openMemoryStore(), openMemoryStore()] as const
afterAll(async () => {
  for (const store of stores) await store.close()
})

function open({
  url = 'http://127.0.0.1:7300',
  store = stores[0],
  startToken = createStartToken(),
  clock = new FakeClock(),
} = {}) {
  const sign = (purpose: string, text: string) => store.sign(purpose, text)
  const { callers } = store
  const sessions = new BrowserSessions({ startToken, callers, clock, sign, publicUrl: () => url })
  /** The cookie of a browser, with its attributes. */
  const signIn = (
    kind: 'key' | 'token' | 'operator' = 'key',
    credential = new Secret('k-ann'),
    endsAtMs?: number,
  ) => {
    const opened = sessions.open({ kind, credential, endsAtMs })
    if (opened === undefined) throw new Error('too long')
    const set = opened.headers['set-cookie'] ?? ''
    return { set, cookie: set.split(';', 1)[0] ?? '', csrf: sessions.tokenOf(opened.session), ...opened }
  }
  const find = (cookie: string) => sessions.find({ headers: { cookie } })
  return { sessions, clock, startToken, signIn, find }
}

describe('BrowserSessions', () => {
  it('keeps its state in an HttpOnly cookie whose content is sealed', async () => {
    const { signIn, find } = open()
    const { set, cookie, session } = signIn()
    expect(set).toMatch(/^collet_session_7300=key\.[\w-]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Lax$/)
    expect(Buffer.from(cookie.split('.')[1] ?? '', 'base64url').toString('latin1')).not.toContain('k-ann')
    expect(await find(cookie)).toEqual(session)
    expect((await find(cookie))?.credential.reveal()).toBe('k-ann')
  })

  it('is limited to this host and to encrypted connections if the public URL is https', () => {
    const { set } = open({ url: 'https://tools.example.com/collet' }).signIn()
    expect(set).toMatch(/^__Host-collet_session_443=.+; Path=\/; .*SameSite=Lax; Secure$/)
  })

  it('rejects forged, truncated, changed, foreign and duplicate cookies', async () => {
    const { signIn, find } = open()
    const { cookie } = signIn()
    const [name = '', value = ''] = cookie.split('=')
    const [, sealed = ''] = value.split('.')
    const foreign = open({ store: stores[1] }).signIn().cookie
    const tries = [
      ...['', `${name}=`, `${name}=key.`, `${name}=key`, `${name}=x`, `${name}=key.${'A'.repeat(5_000)}`],
      ...[cookie.slice(0, -4), `${cookie}AAAA`, `${cookie}.x`, `${name}=${sealed}`],
      ...[
        `${name}=operator.${sealed}`,
        `${name}=token.${sealed}`,
        `${name}=key.${'A'.repeat(sealed.length)}`,
      ],
      ...[foreign, `${cookie}; ${cookie}`, `${cookie}; ${foreign}`, `${cookie}, ${name}=x`],
      ...[cookie.replace('7300', '7301'), cookie.replace('collet', 'Collet'), `x${cookie}`],
    ]
    for (const each of tries) expect([each, await find(each)]).toEqual([each, undefined])
    // Several lengths are tried: at some of them the last character has unused bits.
    for (const each of [
      cookie,
      signIn('key', new Secret('k-an')).cookie,
      signIn('key', new Secret('k-a')).cookie,
    ])
      for (let at = name.length + 5; at < each.length; at += 1)
        for (const other of ['A', 'B', '_'].filter((character) => character !== each[at]))
          expect(await find(`${each.slice(0, at)}${other}${each.slice(at + 1)}`)).toBeUndefined()
    expect(await find(`a=b; ${cookie};c=d`)).toBeDefined()
  })

  it('ends after twelve hours, or with its credential', async () => {
    const { signIn, find, clock } = open()
    const long = signIn()
    const short = signIn('token', new Secret('a.b.c'), clock.nowMs() + HOURS_MS)
    expect(short.set).toContain('Max-Age=3600;')
    clock.advance(HOURS_MS)
    expect([await find(short.cookie), (await find(long.cookie))?.kind]).toEqual([undefined, 'key'])
    clock.advance(11 * HOURS_MS - 1)
    expect(await find(long.cookie)).toBeDefined()
    clock.advance(1)
    expect(await find(long.cookie)).toBeUndefined()
  })

  it('ends at sign-out, for every copy and every server on the store', async () => {
    const clock = new FakeClock()
    const [here, there] = [open({ clock }), open({ clock })]
    const { cookie, session } = here.signIn()
    const other = here.signIn()
    expect(await there.find(cookie)).toEqual(session)
    await here.sessions.end(session)
    expect([await here.find(cookie), await there.find(cookie)]).toEqual([undefined, undefined])
    expect(await there.find(other.cookie)).toBeDefined()
  })

  it("rule 29: the operator's session is invalid on a server with another start token", async () => {
    const here = open()
    const { cookie } = here.signIn('operator', here.startToken.token)
    expect((await here.find(cookie))?.credential).toBe(here.startToken.token)
    expect(await open().find(cookie)).toBeUndefined()
    expect(await open({ startToken: here.startToken }).find(cookie)).toBeDefined()
  })

  it('gives access to data only with its token in the header, from our own origin and without another credential', async () => {
    const { sessions, signIn } = open()
    const { cookie, csrf } = signIn()
    const present = async (headers: Record<string, string>) =>
      (await sessions.present({ headers })).authorization
    expect(await present({ cookie, 'collet-csrf': csrf })).toBe('Bearer k-ann')
    expect(await present({ cookie, 'collet-csrf': csrf, 'sec-fetch-site': 'same-origin' })).toBe(
      'Bearer k-ann',
    )
    const others = [
      ...[{ cookie }, { 'collet-csrf': csrf }, { cookie, 'collet-csrf': '' }],
      ...[
        { cookie, 'collet-csrf': signIn().csrf },
        { cookie: signIn().cookie, 'collet-csrf': csrf },
      ],
      ...['cross-site', 'same-site', 'none'].map((site) => ({
        cookie,
        'collet-csrf': csrf,
        'sec-fetch-site': site,
      })),
      ...['x-api-key', 'oxp-api-key', 'otc-api-key'].map((name) => ({
        cookie,
        'collet-csrf': csrf,
        [name]: 'k',
      })),
    ]
    for (const headers of others) expect([headers, await present(headers)]).toEqual([headers, undefined])
    expect(await present({ cookie, 'collet-csrf': csrf, authorization: 'Bearer mine' })).toBe('Bearer mine')
  })

  it('accepts a request as the operator only with the cookie, its token and no other credential', async () => {
    const { sessions, signIn, startToken } = open()
    const { cookie, csrf } = signIn('operator', startToken.token)
    const headers = { cookie, 'collet-csrf': csrf }
    expect((await sessions.present({ headers })).authorization).toBe(`Bearer ${startToken.token.reveal()}`)
    expect(await sessions.isOperator(headers)).toBe(true)
    const ann = signIn()
    const others = [
      ...[{ cookie }, { 'collet-csrf': csrf }, { cookie, 'collet-csrf': 'operator.' }],
      ...[
        { cookie: ann.cookie, 'collet-csrf': csrf },
        { cookie: ann.cookie, 'collet-csrf': ann.csrf },
      ],
      ...['cross-site', 'same-site'].map((site) => ({ ...headers, 'sec-fetch-site': site })),
      ...['authorization', 'x-api-key'].map((name) => ({ ...headers, [name]: 'Bearer k' })),
    ]
    for (const sent of others) expect([sent, await sessions.isOperator(sent)]).toEqual([sent, false])
  })

  it('reports a credential that is too long for a cookie', () => {
    const { sessions } = open()
    const opened = (length: number) =>
      sessions.open({ kind: 'token', credential: new Secret('x'.repeat(length)) })
    expect(opened(2_700)?.headers['set-cookie']?.length).toBeLessThan(4_096)
    expect(opened(2_900)).toBeUndefined()
  })
})
