package profile_test

import (
	"fmt"
	"testing"

	clusterv1alpha1 "github.com/flagship-k8s/flagship/api/cluster/v1alpha1"
	workv1alpha2 "github.com/flagship-k8s/flagship/api/work/v1alpha2"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision"
	"github.com/flagship-k8s/flagship/internal/pipeline/schedule/decision/profile"
)

func TestSpreadByCluster(t *testing.T) {
	runAll(t, map[string]scenario{
		"Best": {
			reason: "the two with most available, 9:5 over 10: quotients 9, 5, 3, 1.8, 1.7, 1.3, then 1 and 1 with m4 first, .82, .71",
			fleet:  eachAvailable(2, 3, 9, 5), request: deployment(10, placement(dynamic, spread(byCluster, 1, 2))), want: targets("m3", 6, "m4", 4),
		},
		"Exchange": {
			reason: "m2 and m1 come first because they hold some, but have 4+3; m3 with 9 replaces m1; the 9 more go 3:9",
			fleet:  eachAvailable(2, 3, 9, 5), request: deployment(10, placement(dynamic, spread(byCluster, 1, 2)), now("m1", 1, "m2", 1)),
			want: targets("m2", 3, "m3", 7),
		},
		"NoExchangeHelps": {
			reason: "no two clusters hold 15",
			fleet:  eachAvailable(2, 3, 9, 5), request: deployment(15, placement(dynamic, spread(byCluster, 1, 2))),
			failure: workv1alpha2.BindingReasonUnschedulable,
			message: "spreadConstraints allow 2 clusters, which is too few: Clusters available replicas 14 are not enough to schedule. " +
				"1 of 15 replicas found no place; available for more: m3 for 9, m4 for 5",
		},
		"ZeroIsNoLimit": {
			reason: "maxGroups 0 bounds nothing",
			fleet:  eachAvailable(1, 1, 1), request: deployment(1, placement(duplicated, spread(byCluster, 1, 0))), want: targets("m1", 1, "m2", 1, "m3", 1),
		},
		"DuplicatedIgnoresCapacity": {
			reason: "duplicating takes those with most available, whether or not it is enough",
			fleet:  eachAvailable(1, 3, 2), request: deployment(5, placement(duplicated, spread(byCluster, 1, 2))), want: targets("m2", 5, "m3", 5),
		},
		"StaysWhereItIs": {
			reason: "of equal clusters the one that has the object is preferred",
			fleet:  eachAvailable(9, 9, 9), request: configMap(placement(duplicated, spread(byCluster, 1, 1)), now("m3", 0)), want: targets("m3", 0),
		},
		"TooFew": {
			reason:  "three asked for, two fit",
			fleet:   fleet(member("m1"), member("m2"), member("m3", tainted("a", "b", "NoSchedule"))),
			request: configMap(placement(duplicated, spread(byCluster, 3, 0))),
			failure: workv1alpha2.BindingReasonUnschedulable,
			message: "spreadConstraints require at least 3 clusters: 2/3 clusters fit: 1 has taint a=b:NoSchedule (m3)",
		},
	})
}

// threeRegions has north with one cluster, east with two and west with three; available replicas as given for n1, e1, e2, w1, w2, w3.
func threeRegions(free ...int64) *decision.Snapshot {
	names := []string{"n1", "e1", "e2", "w1", "w2", "w3"}
	regions := map[byte]string{'n': "north", 'e': "east", 'w': "west"}
	var clusters []*clusterv1alpha1.Cluster
	for i, name := range names {
		clusters = append(clusters, member(name, available(free[i]), in("p", regions[name[0]])))
	}
	return fleet(clusters...)
}

func TestSpreadByRegion(t *testing.T) {
	runAll(t, map[string]scenario{
		"Duplicated": {
			reason: "clusters that hold 5: north 1, east 1, west 2; of the pairs with score 3000 east and west have more clusters; one each, then the best",
			fleet:  threeRegions(10, 5, 1, 5, 5, 1), request: deployment(5, placement(duplicated, spread(byRegion, 2, 2), spread(byCluster, 2, 3))),
			want: targets("e1", 5, "w1", 5, "w2", 5),
		},
		"Divided": {
			reason: "each region must hold 6 of 12 and all do; east and west have most clusters; e1, w1, then w2: 4 each",
			fleet:  threeRegions(10, 5, 1, 5, 5, 1), request: deployment(12, placement(dynamic, spread(byRegion, 2, 2), spread(byCluster, 2, 3))),
			want: targets("e1", 4, "w1", 4, "w2", 4),
		},
		"DividedByCapacity": {
			reason: "east holds only 2 of its 5: north and west",
			fleet:  threeRegions(10, 1, 1, 5, 5, 1), request: deployment(10, placement(aggregated, spread(byRegion, 2, 2), spread(byCluster, 2, 0))),
			want: targets("n1", 10),
		},
		"ShorterIsBetter": {
			reason: "three clusters wanted: west and east score best, but west alone has three",
			fleet:  threeRegions(10, 5, 1, 5, 5, 1), request: deployment(5, placement(duplicated, spread(byRegion, 1, 3), spread(byCluster, 3, 0))),
			want: targets("w1", 5, "w2", 5, "w3", 5),
		},
		"AllRegions": {
			reason: "three regions, one cluster each",
			fleet:  threeRegions(1, 2, 3, 1, 3, 2), request: deployment(1, placement(duplicated, spread(byRegion, 3, 3), spread(byCluster, 3, 3))),
			want: targets("e2", 1, "n1", 1, "w2", 1),
		},
		"OneInEachRegion": {
			reason: "one cluster and two regions are asked for, which is one cluster in each; east and west score best",
			fleet:  threeRegions(10, 5, 1, 5, 5, 1), request: deployment(5, placement(duplicated, spread(byCluster, 1, 1), spread(byRegion, 2, 2))),
			want: targets("e1", 5, "w1", 5),
		},
		"OneInOneRegion": {
			reason: "one region then: west has two clusters that hold 5",
			fleet:  threeRegions(10, 5, 1, 5, 5, 1), request: deployment(5, placement(duplicated, spread(byCluster, 1, 1), spread(byRegion, 1, 1)), now("e1", 5, "w1", 5)),
			want: targets("w1", 5),
		},
		"DividedOverRegions": {
			reason: "12 in one cluster of each of two regions: with 5 and 5 there is no place for them, so north with its 10 and west, which has more clusters than east",
			fleet:  threeRegions(10, 5, 1, 5, 5, 1), request: deployment(12, placement(dynamic, spread(byCluster, 1, 1), spread(byRegion, 2, 2))),
			want: targets("n1", 8, "w1", 4),
		},
		"TooFewRegions": {
			reason: "four regions are not there",
			fleet:  threeRegions(1, 1, 1, 1, 1, 1), request: deployment(1, placement(duplicated, spread(byRegion, 4, 0), spread(byCluster, 1, 0))),
			failure: workv1alpha2.BindingReasonUnschedulable,
			message: "spreadConstraints require at least 4 by region, clusters that fit are in 3: east, north, west",
		},
		"NoRegion": {
			reason:  "a cluster without region cannot be placed by region",
			fleet:   fleet(member("m1", in("p", "east")), member("m2")),
			request: configMap(placement(duplicated, spread(byRegion, 1, 0), spread(byCluster, 1, 0))), want: targets("m1", 0),
		},
		"MostAvailableOfTheRest": {
			reason: "w3 goes first in west with its 9, e1 in east, then w1: 21 in all",
			fleet:  threeRegions(1, 6, 1, 6, 6, 9), request: deployment(21, placement(aggregated, spread(byRegion, 2, 2), spread(byCluster, 2, 3))),
			want: targets("e1", 6, "w1", 6, "w3", 9),
		},
		"StaysInItsRegions": {
			reason: "west would be the better region now; the object is in east and stays",
			fleet:  threeRegions(1, 1, 1, 9, 9, 9), request: deployment(4, placement(duplicated, spread(byRegion, 1, 1), spread(byCluster, 1, 1)), now("e1", 4)),
			want: targets("e1", 4),
		},
		"FreshChoosesAgain": {
			reason: "unless a fresh decision is requested",
			fleet:  threeRegions(1, 1, 1, 9, 9, 9), request: deployment(4, placement(duplicated, spread(byRegion, 1, 1), spread(byCluster, 1, 1)), now("e1", 4), fresh),
			want: targets("w1", 4),
		},
	})
}

func TestSpreadByOtherProperties(t *testing.T) {
	zones := fleet(
		member("a1", in("p1", "east", "z1"), labelled("rack", "r1")), member("a2", in("p1", "east", "z1"), labelled("rack", "r2")),
		member("b1", in("p1", "east", "z2"), labelled("rack", "r1")), member("c1", in("p2", "west", "z3"), labelled("rack", "r2")),
		member("c2", in("p2", "west", "z3"), labelled("rack", "r3")),
	)
	runAll(t, map[string]scenario{
		"Zones": {
			reason: "three zones, one cluster each, the first by name",
			fleet:  zones, request: configMap(placement(duplicated, spread(byZone, 3, 3), spread(byCluster, 1, 3))), want: targets("a1", 0, "b1", 0, "c1", 0),
		},
		"Providers": {
			reason: "two providers",
			fleet:  zones, request: configMap(placement(duplicated, spread(byProvider, 2, 2), spread(byCluster, 1, 2))), want: targets("a1", 0, "c1", 0),
		},
		"Label": {
			reason: "three racks: r1 has a1 first, r2 a2, r3 only c2",
			fleet:  zones, request: configMap(placement(duplicated, spreadByLabel("rack", 3, 3), spread(byCluster, 1, 3))), want: targets("a1", 0, "a2", 0, "c2", 0),
		},
		"RegionAndZone": {
			reason: "two regions and three zones in three clusters",
			fleet:  zones, request: configMap(placement(duplicated, spread(byRegion, 2, 2), spread(byZone, 3, 3), spread(byCluster, 1, 3))), want: targets("a1", 0, "b1", 0, "c1", 0),
		},
		"OneRegionOneZone": {
			reason: "bounds from above combine too: one region, one of its zones",
			fleet:  zones, request: configMap(placement(duplicated, spread(byRegion, 1, 1), spread(byZone, 1, 1), spread(byCluster, 1, 0))), want: targets("a1", 0, "a2", 0),
		},
		"NoSolution": {
			reason: "three zones are not in one region",
			fleet:  zones, request: configMap(placement(duplicated, spread(byRegion, 1, 1), spread(byZone, 3, 0), spread(byCluster, 1, 0))), failure: workv1alpha2.BindingReasonUnschedulable,
		},
		"TooFewClusters": {
			reason: "three zones need three clusters",
			fleet:  zones, request: configMap(placement(duplicated, spread(byZone, 3, 3), spread(byCluster, 1, 2))), failure: workv1alpha2.BindingReasonUnschedulable,
		},
	})
}

func TestSpreadOverVeryManyGroupsEnds(t *testing.T) {
	var clusters []*clusterv1alpha1.Cluster
	for i := range 400 {
		clusters = append(clusters, member(fmt.Sprintf("m%03d", i), in("p", fmt.Sprintf("r%03d", i)), available(int64(i))))
	}
	d := profile.Schedule(deployment(1000, placement(dynamic, spread(byRegion, 6, 0), spread(byCluster, 6, 0))), fleet(clusters...))
	if d.Failure != nil {
		t.Fatal(d.Failure.Message)
	}
	var sum int32
	for _, target := range d.Targets {
		sum += target.Replicas
	}
	if len(d.Targets) < 6 || sum != 1000 {
		t.Errorf("%d replicas in %d clusters, want 1000 in at least 6", sum, len(d.Targets))
	}
}

// Constraints that no first choice meets, though others do.
func TestConstraintsThatMeetOnlyTogether(t *testing.T) {
	rack := func(name, region, rack string, n int64) *clusterv1alpha1.Cluster {
		return member(name, available(n), in("p", region), labelled("rack", rack))
	}
	corner := fleet(rack("e1", "east", "1", 9), rack("e2", "east", "2", 5), rack("w1", "west", "1", 5))
	racks := fleet(rack("e1", "east", "1", 9), rack("e2", "east", "2", 9), rack("e3", "east", "2", 9),
		rack("w1", "west", "3", 5), rack("w2", "west", "3", 5), rack("w3", "west", "1", 5))
	runAll(t, map[string]scenario{
		"TheBestStandsInTheWay": {
			reason: "e1 is best, but only e2 and w1 are two clusters of two regions and two racks",
			fleet:  corner, want: targets("e2", 2, "w1", 2),
			request: deployment(4, placement(dynamic, spread(byRegion, 2, 2), spreadByLabel("rack", 2, 2), spread(byCluster, 2, 2))),
		},
		"NoPairWill": {
			reason: "no two clusters are of two regions and three racks", fleet: racks,
			request: deployment(4, placement(dynamic, spread(byRegion, 2, 2), spreadByLabel("rack", 3, 3), spread(byCluster, 2, 2))),
			failure: workv1alpha2.BindingReasonUnschedulable,
		},
		"OneRegionHasTooFewRacks": {
			reason: "each region has clusters enough, and two racks only; together they have three: 9, 9 and 5 for 6",
			fleet:  racks, want: targets("e1", 3, "e2", 2, "w1", 1),
			request: deployment(6, placement(dynamic, spread(byRegion, 1, 2), spreadByLabel("rack", 3, 3), spread(byCluster, 3, 3))),
		},
		"OneRegionHasTooLittleCapacity": {
			reason: "no region alone holds 20, and two are allowed", fleet: threeRegions(4, 6, 6, 4, 4, 4),
			request: deployment(20, placement(dynamic, spread(byRegion, 1, 2), spread(byCluster, 1, 0))),
			want:    targets("e1", 5, "e2", 5, "w1", 4, "w2", 3, "w3", 3),
		},
	})
}
