import { createRootRoute, createRoute, createRouter } from '@tanstack/react-router'
import { lazyPart } from '../parts/lazy-part.tsx'
import { Frame, NoSuchPage, PageFailed } from './frame.tsx'
import { readSearch, writeSearch } from './search-state.ts'

/** Every address of the console. A place is loaded when somebody goes there. */
const root = createRootRoute({
  component: Frame,
  notFoundComponent: NoSuchPage,
  errorComponent: PageFailed,
})

/** Looking at the catalog and trying a tool need no sign-in where the server is open; these do. */
const PRIVATE = { needsSignIn: true }

const start = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: lazyPart(async () => (await import('../places/start/page.tsx')).StartPage),
})

const catalog = createRoute({
  getParentRoute: () => root,
  path: '/catalog',
  component: lazyPart(async () => (await import('../places/catalog/page.tsx')).CatalogPage),
})

const tool = createRoute({
  getParentRoute: () => root,
  path: '/tools/$id',
  component: lazyPart(async () => (await import('../places/tool/page.tsx')).ToolPage),
})

const calls = createRoute({
  getParentRoute: () => root,
  path: '/calls',
  staticData: PRIVATE,
  component: lazyPart(async () => (await import('../places/calls/page.tsx')).CallsPage),
})

const call = createRoute({
  getParentRoute: () => root,
  path: '/calls/$record',
  staticData: PRIVATE,
  component: lazyPart(async () => (await import('../places/calls/call-page.tsx')).CallPage),
})

const approvals = createRoute({
  getParentRoute: () => root,
  path: '/approvals',
  staticData: PRIVATE,
  component: lazyPart(async () => (await import('../places/approvals/page.tsx')).ApprovalsPage),
})

/** The inbox and one decision are one page: `id` is what is open in it. */
const approval = createRoute({ getParentRoute: () => approvals, path: '$id' })

const connections = createRoute({
  getParentRoute: () => root,
  path: '/connections',
  staticData: PRIVATE,
  component: lazyPart(async () => (await import('../places/connections/page.tsx')).ConnectionsPage),
})

const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  staticData: PRIVATE,
  component: lazyPart(async () => (await import('../places/settings/page.tsx')).SettingsPage),
})

export const router = createRouter({
  routeTree: root.addChildren([
    start,
    catalog,
    tool,
    calls,
    call,
    approvals.addChildren([approval]),
    connections,
    settings,
  ]),
  // The server may be below a path, which the page's base tells.
  basepath: new URL(document.baseURI).pathname,
  parseSearch: readSearch,
  stringifySearch: writeSearch,
  defaultPreload: 'intent',
  // Around each place: what fails in one leaves the way to the others.
  defaultErrorComponent: PageFailed,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
  interface StaticDataRouteOption {
    needsSignIn?: boolean
  }
}
