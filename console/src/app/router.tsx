import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
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
  component: lazyRouteComponent(() => import('../places/start/page.tsx'), 'StartPage'),
})

const catalog = createRoute({
  getParentRoute: () => root,
  path: '/catalog',
  component: lazyRouteComponent(() => import('../places/catalog/page.tsx'), 'CatalogPage'),
})

const tool = createRoute({
  getParentRoute: () => root,
  path: '/tools/$id',
  component: lazyRouteComponent(() => import('../places/tool/page.tsx'), 'ToolPage'),
})

const calls = createRoute({
  getParentRoute: () => root,
  path: '/calls',
  staticData: PRIVATE,
  component: lazyRouteComponent(() => import('../places/calls/page.tsx'), 'CallsPage'),
})

const call = createRoute({
  getParentRoute: () => root,
  path: '/calls/$record',
  staticData: PRIVATE,
  component: lazyRouteComponent(() => import('../places/calls/call-page.tsx'), 'CallPage'),
})

const approvals = createRoute({
  getParentRoute: () => root,
  path: '/approvals',
  staticData: PRIVATE,
  component: lazyRouteComponent(() => import('../places/approvals/page.tsx'), 'ApprovalsPage'),
})

/** The inbox and one decision are one page: `id` is what is open in it. */
const approval = createRoute({ getParentRoute: () => approvals, path: '$id' })

const connections = createRoute({
  getParentRoute: () => root,
  path: '/connections',
  staticData: PRIVATE,
  component: lazyRouteComponent(() => import('../places/connections/page.tsx'), 'ConnectionsPage'),
})

const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  staticData: PRIVATE,
  component: lazyRouteComponent(() => import('../places/settings/page.tsx'), 'SettingsPage'),
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
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
  interface StaticDataRouteOption {
    needsSignIn?: boolean
  }
}
