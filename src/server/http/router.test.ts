import { describe, expect, it } from 'vitest'
import { jsonReply, refuseWithMessage } from './exchange.ts'
import { allowedMethods, pathOf, RoutePath, Router, type ServerRoute } from './router.ts'

const route = (method: ServerRoute['method'], path: string): ServerRoute => ({
  ...{ method, path, access: 'open', body: 'never' },
  handle: () => jsonReply(200, {}),
  refuse: refuseWithMessage,
})

describe('Router', () => {
  const router = new Router([
    route('GET', '/approve/:token/:verb'),
    route('GET', '/approve/:token/sign-in'),
    route('DELETE', '/approve/:token/:verb'),
    route('GET', '/calls/:id'),
    route('GET', '/calls/latest'),
  ])

  it.each([
    ['/approve/t/sign-in', '/approve/:token/sign-in', { token: 't' }],
    ['/approve/sign-in/yes', '/approve/:token/:verb', { token: 'sign-in', verb: 'yes' }],
    ['/calls/latest', '/calls/latest', {}],
    ['/calls/1', '/calls/:id', { id: '1' }],
  ])('finds the most specific route for %s', (path, pattern, params) => {
    expect(router.find('GET', path)).toMatchObject({ route: { path: pattern }, params })
  })

  it('finds HEAD for every GET route, and lists the methods of a path', () => {
    expect(router.find('HEAD', '/calls/1')?.route.path).toBe('/calls/:id')
    expect(router.find('DELETE', '/approve/t/sign-in')?.route.path).toBe('/approve/:token/:verb')
    expect(router.find('POST', '/calls/1')).toBeUndefined()
    expect(allowedMethods(router.at('/approve/t/sign-in'))).toBe('DELETE, GET, HEAD')
  })

  it.each([
    ['/calls/:id', '/calls/:record'],
    ['/calls', '/calls'],
  ])('refuses %s beside %s, because one of them would never match', (one, other) => {
    expect(() => new Router([route('GET', one), route('GET', other)])).toThrow(
      `Two routes serve GET ${other}`,
    )
  })
})

describe('RoutePath', () => {
  it.each(['/tools/', '//tools', '/Tools', '/%74ools', '/tools/x', ''])(
    'does not match %j with /tools',
    (path) => {
      expect(new RoutePath('/tools').match(path)).toBeUndefined()
    },
  )

  it('decodes parameters once', () => {
    const path = new RoutePath('/calls/:id/settle')
    expect(path.match('/calls/a%2Fb%2525/settle')).toEqual({ id: 'a/b%25' })
    expect(path.match('/calls/é😀/settle')).toEqual({ id: 'é😀' })
  })

  it.each([
    '/calls//settle',
    '/calls/a/b/settle',
    '/c%61lls/a/settle',
    '/calls/%ff/settle',
    '/calls/a/settle/',
  ])('does not match %s', (path) => {
    expect(new RoutePath('/calls/:id/settle').match(path)).toBeUndefined()
  })
})

describe('pathOf', () => {
  it.each([
    ['/a', '/a'],
    ['/a?b=c?d', '/a'],
    ['/a?', '/a'],
  ])('%s is %s', (target, path) => {
    expect(pathOf(target)).toBe(path)
  })
})
