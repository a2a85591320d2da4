// A wrapper for components that renders again only when a property has changed.

import { Component, type ComponentChildren, type FunctionComponent, h } from "preact";

export function memo<P extends object>(component: FunctionComponent<P>): FunctionComponent<P> {
  class Memo extends Component<P> {
    override shouldComponentUpdate(nextProps: Readonly<P>): boolean {
      const props = this.props as P;
      const names = new Set([...Object.keys(props), ...Object.keys(nextProps)]) as Set<keyof P>;
      return [...names].some((name) => props[name] !== nextProps[name]);
    }

    override render(): ComponentChildren {
      return h(component, this.props as P);
    }
  }
  return Memo as unknown as FunctionComponent<P>;
}
